//! The values of all charts as CSV (RFC 4180).

use super::document::Document;

/// A header, and a line for each point of each chart.
pub(super) fn text(document: &Document) -> String {
    let mut text = "chart,series,label,x_name,x,y_name,y\r\n".to_owned();
    for chart in document.charts() {
        for point in &chart.points {
            let x = point.x.map_or(String::new(), |x| x.to_string());
            let fields = [
                quoted(&chart.id),
                quoted(&point.series),
                quoted(&point.label),
                quoted(&chart.x_name),
                x,
                quoted(&chart.y_name),
                point.y.to_string(),
            ];
            text += &fields.join(",");
            text += "\r\n";
        }
    }
    text
}

fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_quoted() {
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("plain text"), "plain text");
    }
}
