//! Formulas of a rank: `rank`, `ranks`, numbers, `+ - * / %` and parentheses.

/// What the names in a formula stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) rank: u32,
    pub(super) ranks: u32,
}

/// The value of a formula.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn evaluate(text: &str, names: Names) -> Result<i64, String> {
    let mut reader = Reader { rest: text, names };
    let value = reader.sum()?;
    reader.skip_blanks();
    match reader.rest.chars().next() {
        None => Ok(value),
        Some(unexpected) => Err(format!("`{text}`: unexpected `{unexpected}`")),
    }
    .map_err(|reason| reason.to_owned())
}

struct Reader<'a> {
    rest: &'a str,
    names: Names,
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes one of some characters if it is next.
    fn take(&mut self, characters: &[char]) -> Option<char> {
        self.skip_blanks();
        let next = self.rest.chars().next().filter(|next| characters.contains(next))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Takes the characters of a word.
    fn word(&mut self) -> String {
        self.skip_blanks();
        let is_end = |one: char| !one.is_ascii_alphanumeric() && one != '_';
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let word = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        word
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.term()?;
        while let Some(operator) = self.take(&['+', '-']) {
            let other = self.term()?;
            let result = match operator {
                '+' => value.checked_add(other),
                _ => value.checked_sub(other),
            };
            value = result.ok_or_else(|| too_large(value, operator, other))?;
        }
        Ok(value)
    }

    fn term(&mut self) -> Result<i64, String> {
        let mut value = self.factor()?;
        while let Some(operator) = self.take(&['*', '/', '%']) {
            let other = self.factor()?;
            if operator != '*' && other == 0 {
                return Err(format!("{value} {operator} 0: division by zero"));
            }
            let result = match operator {
                '*' => value.checked_mul(other),
                '/' => value.checked_div_euclid(other),
                _ => value.checked_rem_euclid(other),
            };
            value = result.ok_or_else(|| too_large(value, operator, other))?;
        }
        Ok(value)
    }

    fn factor(&mut self) -> Result<i64, String> {
        if self.take(&['-']).is_some() {
            return self.factor()?.checked_neg().ok_or_else(|| "too large".to_owned());
        }
        if self.take(&['(']).is_some() {
            let value = self.sum()?;
            return match self.take(&[')']) {
                Some(_) => Ok(value),
                None => Err("a `)` is missing".to_owned()),
            };
        }
        match self.word().as_str() {
            "rank" => Ok(i64::from(self.names.rank)),
            "ranks" => Ok(i64::from(self.names.ranks)),
            "" => Err("a number, `rank`, `ranks` or `(` is missing".to_owned()),
            word => word.parse().map_err(|_| format!("`{word}`: use a number, `rank` or `ranks`")),
        }
    }
}

fn too_large(value: i64, operator: char, other: i64) -> String {
    format!("{value} {operator} {other}: too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i64, String> {
        evaluate(text, Names { rank: 3, ranks: 8 })
    }

    #[test]
    fn formulas_have_the_usual_precedence() {
        let cases = [
            ("5", 5),
            (" rank*16 + 4 ", 52),
            ("(ranks - rank) * -2", -10),
            ("100 / ranks % 5", 2),
            ("2*(1+(rank))-1", 7),
            ("10-3-2", 5),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("", "missing"),
            ("rank +", "missing"),
            ("(rank", "`)` is missing"),
            ("size * 2", "`size`"),
            ("3 4", "unexpected `4`"),
            ("1/0", "division by zero"),
            ("9223372036854775807 + 1", "too large"),
            ("9223372036854775808", "use a number"),
        ];
        for (text, reason) in cases {
            let error = value(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
