//! What a series looks like: each strategy has one colour, one sign and one place in all charts.
//!
//! Colours of strategies can be told apart on white and on dark ground, also by people who do not
//! see red or green as others do; a test computes it. Signs differ as well, for prints in grey.

/// The values of the variables on white.
pub(crate) const LIGHT: [(&str, &str); 15] = [
    ("--back", "#ffffff"),
    ("--text", "#1b2430"),
    ("--soft", "#5a6675"),
    ("--line", "#e2e6ea"),
    ("--card", "#ffffff"),
    ("--c0", "#0070e0"),
    ("--c1", "#6b0901"),
    ("--c2", "#22cf90"),
    ("--c3", "#91356f"),
    ("--c4", "#e69a27"),
    ("--c5", "#41c0f9"),
    ("--c6", "#4807a6"),
    ("--c7", "#fc3b54"),
    ("--c8", "#4c5a0f"),
    ("--grey", "#7b8794"),
];

/// Those on a dark page.
pub(crate) const DARK: [(&str, &str); 15] = [
    ("--back", "#12161c"),
    ("--text", "#e6eaf0"),
    ("--soft", "#9aa7b5"),
    ("--line", "#2b3440"),
    ("--card", "#1a2028"),
    ("--c0", "#4475e5"),
    ("--c1", "#b35122"),
    ("--c2", "#0d8364"),
    ("--c3", "#c132b1"),
    ("--c4", "#cb9318"),
    ("--c5", "#8fd3fc"),
    ("--c6", "#c685ff"),
    ("--c7", "#faa8bc"),
    ("--c8", "#cbdd80"),
    ("--grey", "#8b97a5"),
];

/// The colour of what others are compared with, and of what is left of a time.
const GREY: &str = "var(--grey)";

/// How many colours there are besides.
const COLORS: usize = 9;

/// Strategies in the order of tables and legends, with their colours. `auto` is drawn last, and so
/// above the others.
const STRATEGIES: [(&str, &str); 13] = [
    ("Block I/O", GREY),
    ("level 0", "var(--c7)"),
    ("posix", "var(--c7)"),
    ("direct", "var(--c7)"),
    ("list", "var(--c2)"),
    ("sieve", "var(--c6)"),
    ("romio-like", "var(--c4)"),
    ("two-phase of pario", "var(--c1)"),
    ("two-phase", "var(--c1)"),
    ("gather", "var(--c8)"),
    ("multi-phase", "var(--c5)"),
    ("inspector-executor", "var(--c3)"),
    ("auto", "var(--c0)"),
];

/// Parts of bars that have the same colour in every chart.
const PARTS: [(&str, &str); 6] = [
    ("planning", "var(--c0)"),
    ("synchronisation", "var(--c7)"),
    ("phases", "var(--c2)"),
    ("shuffle", "var(--c6)"),
    ("storage", "var(--c4)"),
    ("rest", GREY),
];

/// Kinds of storage accesses, which look the same in every chart.
const ACCESSES: [(&str, &str); 4] = [
    ("read", "var(--c0)"),
    ("write", "var(--c1)"),
    ("read list", "var(--c5)"),
    ("write list", "var(--c7)"),
];

/// The shape of a mark on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Circle,
    Square,
    Diamond,
    Up,
    Down,
    Cross,
}

const SIGNS: [Sign; 6] =
    [Sign::Circle, Sign::Square, Sign::Diamond, Sign::Up, Sign::Down, Sign::Cross];

impl Sign {
    /// The element without its colour.
    pub(super) fn shape(self, (x, y): (f64, f64), radius: f64) -> String {
        let corners: &[(f64, f64)] = match self {
            Sign::Circle => return format!("circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\""),
            Sign::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Sign::Diamond => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            Sign::Up => &[(0.0, -1.2), (1.2, 0.95), (-1.2, 0.95)],
            Sign::Down => &[(0.0, 1.2), (1.2, -0.95), (-1.2, -0.95)],
            Sign::Cross => &[
                (-0.45, -1.2),
                (0.45, -1.2),
                (0.45, -0.45),
                (1.2, -0.45),
                (1.2, 0.45),
                (0.45, 0.45),
                (0.45, 1.2),
                (-0.45, 1.2),
                (-0.45, 0.45),
                (-1.2, 0.45),
                (-1.2, -0.45),
                (-0.45, -0.45),
            ],
        };
        let place = |(across, down): &(f64, f64)| {
            format!("{:.2},{:.2}", x + across * radius, y + down * radius)
        };
        let points = corners.iter().map(place).collect::<Vec<String>>().join(" ");
        format!("polygon points=\"{points}\"")
    }
}

/// How a series is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) color: String,
    pub(super) sign: Sign,
}

/// The strategy in the name of a series: `level 2 multi-phase 1` is one of `multi-phase`.
fn strategy_of(series: &str) -> Option<usize> {
    let is = |name: &str| STRATEGIES.iter().position(|(known, _)| *known == name);
    let base = series.trim_end_matches(|character: char| character.is_ascii_digit()).trim_end();
    let bare = base.strip_prefix("level ").and_then(|rest| rest.split_once(' '));
    is(series).or_else(|| is(base)).or_else(|| is(bare?.1))
}

/// The place of a series in legends and tables: strategies, parts of times, kinds of accesses;
/// others as they are, and ranks by their numbers.
pub(crate) fn place_of(series: &str) -> usize {
    let is = |all: &[(&str, &str)]| all.iter().position(|(name, _)| *name == series);
    let others = STRATEGIES.len() + PARTS.len() + ACCESSES.len();
    strategy_of(series)
        .or_else(|| is(&PARTS).map(|place| STRATEGIES.len() + place))
        .or_else(|| is(&ACCESSES).map(|place| STRATEGIES.len() + PARTS.len() + place))
        .or_else(|| series.strip_prefix("rank ")?.parse::<usize>().ok()?.checked_add(others + 1))
        .unwrap_or(others)
}

/// Whether a series or a bar is to be seen first: `auto`, and the way that was chosen.
pub(super) fn is_strong(name: &str) -> bool {
    name == "auto" || name.starts_with("auto: ") || name.ends_with(" (chosen)")
}

/// How all series of a chart are drawn. What has no colour of its own gets the first that is free.
pub(super) fn looks(series: &[&str]) -> Vec<Look> {
    let own = |name: &&str| {
        let exact = STRATEGIES.iter().chain(&ACCESSES).find(|(known, _)| known == name);
        exact.map(|(_, color)| (*color).to_owned())
    };
    let mut used: Vec<String> = series.iter().filter_map(own).collect();
    let mut look = |(index, name): (usize, &&str)| {
        let of_strategy = strategy_of(name).map(|place| STRATEGIES[place].1.to_owned());
        let color = own(name).unwrap_or_else(|| {
            let free = of_strategy.into_iter().chain((0..COLORS).map(numbered));
            let found = free.into_iter().find(|color| !used.contains(color));
            let color = found.unwrap_or_else(|| numbered(used.len()));
            used.push(color.clone());
            color
        });
        let access = ACCESSES.iter().position(|(known, _)| known == name);
        let place = strategy_of(name).or(access).unwrap_or(index);
        Look { color, sign: SIGNS[place % SIGNS.len()] }
    };
    series.iter().enumerate().map(&mut look).collect()
}

/// The colours of the series of a chart with bars.
pub(super) fn colors(series: &[&str]) -> Vec<String> {
    let looks = looks(series);
    let color = |(name, look): (&&str, Look)| {
        let part = PARTS.iter().find(|(known, _)| known == name);
        let rank = name.strip_prefix("rank ").and_then(|rank| rank.parse().ok());
        match (part, rank) {
            (Some((_, color)), _) => (*color).to_owned(),
            (None, Some(rank)) => rank_color(rank),
            (None, None) => look.color,
        }
    };
    series.iter().zip(looks).map(color).collect()
}

fn numbered(index: usize) -> String {
    format!("var(--c{})", index % COLORS)
}

/// The colour of a rank: neighbours differ, also of many.
pub(super) fn rank_color(rank: u32) -> String {
    // Steps of the golden angle meet no hue twice.
    let hue = (f64::from(rank) * 137.508 + 204.0) % 360.0;
    let lightness = [0.48, 0.62, 0.38][usize::try_from(rank / 12 % 3).unwrap_or(0)];
    let channel = |shift: f64| {
        let place = (shift + hue / 30.0) % 12.0;
        let amount = 0.62 * f64::min(lightness, 1.0 - lightness);
        let value = lightness - amount * (place - 3.0).min(9.0 - place).clamp(-1.0, 1.0);
        format!("{:02x}", byte(value))
    };
    format!("#{}{}{}", channel(0.0), channel(8.0), channel(4.0))
}

/// A share of 255; the cast saturates, and the value is between 0 and 1.
fn byte(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least contrast to the ground, and the least distances between colours, in Oklab.
    const CONTRAST: f64 = 1.95;
    const SEEN: f64 = 0.15;
    const SEEN_LESS: f64 = 0.08;

    /// Linear red, green and blue.
    fn linear(hex: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            match value <= 0.040_45 {
                true => value / 12.92,
                false => ((value + 0.055) / 1.055).powf(2.4),
            }
        })
    }

    fn product(matrix: [[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(one, two)| one * two).sum())
    }

    /// A colour in Oklab, where distances are those that people see.
    fn oklab(linear: [f64; 3]) -> [f64; 3] {
        let cones = [
            [0.412_221, 0.536_333, 0.051_446],
            [0.211_903, 0.680_700, 0.107_397],
            [0.088_302, 0.281_719, 0.629_979],
        ];
        let cones = product(cones, linear).map(|value| value.max(0.0).cbrt());
        let lab = [
            [0.210_454, 0.793_618, -0.004_072],
            [1.977_998, -2.428_592, 0.450_594],
            [0.025_904, 0.782_772, -0.808_676],
        ];
        product(lab, cones)
    }

    /// As people without red or green cones see it (Machado, Oliveira and Fernandes, 2009).
    fn without_cones(linear: [f64; 3]) -> [[f64; 3]; 2] {
        let red = [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ];
        let green = [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ];
        [red, green].map(|matrix| product(matrix, linear).map(|value| value.clamp(0.0, 1.0)))
    }

    fn distance(one: [f64; 3], other: [f64; 3]) -> f64 {
        one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
    }

    fn luminance(linear: [f64; 3]) -> f64 {
        product([[0.2126, 0.7152, 0.0722]; 3], linear)[0]
    }

    #[test]
    fn colours_can_be_told_apart_by_all_on_light_and_dark_ground() {
        for all in [LIGHT, DARK] {
            let card = linear(all.iter().find(|(name, _)| *name == "--card").unwrap().1);
            let colors: Vec<&str> = all
                .iter()
                .filter(|(name, _)| name.starts_with("--c") && *name != "--card")
                .map(|(_, color)| *color)
                .collect();
            assert_eq!(colors.len(), COLORS);
            for (index, one) in colors.iter().enumerate() {
                let own = linear(one);
                let (low, high) =
                    (luminance(own).min(luminance(card)), luminance(own).max(luminance(card)));
                assert!((high + 0.05) / (low + 0.05) > CONTRAST, "{one} on its ground");
                for other in &colors[..index] {
                    let (own, other_own) = (linear(one), linear(other));
                    let seen = distance(oklab(own), oklab(other_own));
                    assert!(seen > SEEN, "{one} {other}: {seen}");
                    for (one_less, other_less) in
                        without_cones(own).into_iter().zip(without_cones(other_own))
                    {
                        let seen = distance(oklab(one_less), oklab(other_less));
                        assert!(seen > SEEN_LESS, "{one} {other} without cones: {seen}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_strategy_has_one_look_in_all_charts_and_no_two_series_share_a_colour() {
        let few = looks(&["list", "Block I/O"]);
        let many = looks(&["P 8", "P 16", "auto", "list", "Block I/O", "other", "multi-phase 1"]);
        assert_eq!((&few[0], &few[1]), (&many[3], &many[4]));
        assert_eq!(colors(&["auto"])[0], many[2].color, "bars have the colours of lines");
        for (index, one) in many.iter().enumerate() {
            assert!(many[..index].iter().all(|other| other.color != one.color), "{many:?}");
        }
    }

    /// Reads were blue in one chart and brown in the next: whatever came first was blue.
    #[test]
    fn reads_and_writes_have_one_look_in_all_charts() {
        for [read, write] in [["read", "write"], ["read list", "write list"]] {
            let (one, other) = (&looks(&[read])[0], &looks(&[write])[0]);
            assert!(one.color != other.color && one.sign != other.sign);
            assert_eq!(looks(&[write, read]), [other.clone(), one.clone()]);
        }
    }

    /// Timelines had the parts in the order of their first spans, ranks that of their windows.
    #[test]
    fn parts_accesses_and_ranks_have_one_order() {
        let expected =
            ["list", "auto", "planning", "synchronisation", "storage", "rest", "read", "write"];
        let expected = [&expected[..], &["other", "rank 1", "rank 2", "rank 10"]].concat();
        let mut names = expected.clone();
        names.reverse();
        names.sort_by_key(|name| place_of(name));
        assert_eq!(names, expected);
    }

    #[test]
    fn neighbouring_ranks_have_other_colours() {
        let colors: Vec<String> = (0..24).map(rank_color).collect();
        for (index, one) in colors.iter().enumerate() {
            assert!(one.len() == 7 && !colors[..index].contains(one), "{one}");
        }
    }
}
