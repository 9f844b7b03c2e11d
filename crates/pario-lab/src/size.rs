//! Numbers of bytes as people write them: with K, M, G or T for KiB, MiB, GiB or TiB.

/// Reads a number of bytes, which is more than 0.
///
/// # Errors
/// Why it is none.
pub fn parse(text: &str) -> Result<u64, String> {
    let units = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];
    let with_unit = units.iter().find_map(|&(suffix, unit)| {
        Some((text.strip_suffix([suffix, suffix.to_ascii_lowercase()])?, unit))
    });
    let (digits, unit) = with_unit.unwrap_or((text, 1));
    let number: Option<u64> = digits.parse().ok();
    if digits.parse::<i64>().is_ok_and(|number| number < 0) {
        return Err("must be more than 0".to_owned());
    }
    match number.and_then(|number| number.checked_mul(unit)) {
        // Offsets in files have 63 bits.
        Some(bytes) if bytes > 0 && i64::try_from(bytes).is_ok() => Ok(bytes),
        Some(0) => Err("must be more than 0".to_owned()),
        Some(_) => Err("too large".to_owned()),
        None => Err("not a number of bytes, as 4096, 64K, 100M or 1G".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_suffix() {
        let cases = [("4", 4), ("64k", 65536), ("100M", 104_857_600), ("2G", 2 << 30)];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes));
        }
        for text in ["", "0", "-4", "4Q", "K", "9223372036854775808", "99999999999G"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
