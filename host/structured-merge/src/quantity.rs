//! Resource quantities (`k8s.io/apimachinery/pkg/api/resource`): parse, compare, canonical form.
//!
//! Must not know where quantities stand.

use crate::Error;
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;

const FORMAT_FAULT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX_FAULT: &str = "unable to parse quantity's suffix";
const NUMERIC_FAULT: &str = "unable to parse numeric part of quantity";

/// The largest power of ten that has a suffix.
const MAX_EXPONENT: i32 = 18;

/// Smallest power of ten; smaller amounts are rounded up, away from zero.
const NANO: i32 = -9;

/// An amount, exact to a billionth.
#[derive(Clone, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// The text, if the server takes it for canonical and keeps it.
    text: Option<String>,
    /// Power of ten of the last digit that was written.
    scale: i32,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `Ki`, `Mi`, ...
    Binary,
    /// `n`, `u`, `m`, none, `k`, `M`, ...
    Decimal,
    /// `e3`.
    Exponent,
}

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// [`Error::Quantity`] with the server's text, also for amounts
    /// beyond 10^29, where 128 bits end.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fault = |text: &str| Error::Quantity(text.to_owned());
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            Some(_) => (false, text),
            None => return Err(fault(FORMAT_FAULT)),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent_digits = letters.strip_prefix(['+', '-']).unwrap_or(letters);
        if number.is_empty()
            || fraction.contains('.')
            || exponent_digits.contains(|c: char| !c.is_ascii_digit())
        {
            return Err(fault(FORMAT_FAULT));
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(fault(NUMERIC_FAULT));
        }
        let (base, exponent, format) = interpret(suffix).ok_or_else(|| fault(SUFFIX_FAULT))?;

        let digits = format!("{}{fraction}", whole.trim_start_matches('0'));
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Self { nanos: 0, format, text: None, scale: 0 });
        }
        let keep = is_kept(whole.trim_start_matches('0'), fraction, exponent, format);
        let mut amount: i128 = digits.parse().map_err(|_| fault(NUMERIC_FAULT))?;
        let mut scale = -i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        if base == 2 {
            amount = amount.checked_mul(1 << exponent).ok_or_else(|| fault(NUMERIC_FAULT))?;
        } else {
            scale = scale.saturating_add(exponent);
        }
        let mut nanos = shift(amount, scale.saturating_sub(NANO)).ok_or_else(|| fault(NUMERIC_FAULT))?;
        if format == Format::Binary {
            nanos = nanos.min(i128::from(i64::MAX) * ONE);
        }
        // An amount below one has no binary suffix.
        let format = if format == Format::Binary && nanos < ONE { Format::Decimal } else { format };
        let nanos = if negative { -nanos } else { nanos };
        Ok(Self { nanos, format, text: keep.then(|| text.to_owned()), scale })
    }

    /// This quantity rounded up to thousandths, as the server stores the resources of containers.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        const MILLI: i128 = 1_000_000;
        if self.scale >= -3 {
            return self;
        }
        let up = if self.nanos % MILLI == 0 { 0 } else { self.nanos.signum() };
        Self { nanos: (self.nanos / MILLI + up) * MILLI, text: None, ..self }
    }
}

/// One, in nanos.
const ONE: i128 = 1_000_000_000;

/// `amount * 10^by`, rounded away from zero.
fn shift(amount: i128, by: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(by.unsigned_abs());
    if by >= 0 {
        return amount.checked_mul(power?);
    }
    // Smaller than the smallest amount there is: some resources are asked for, so some there are.
    Some(power.map_or(1, |power| amount / power + i128::from(amount % power != 0)))
}

/// Whether the server keeps a number as it is written (the fast path of `ParseQuantity`): short enough
/// for 64 bits, without a shorter form. It does not look closely: `1.234k` and `+1` stay.
fn is_kept(whole: &str, fraction: &str, exponent: i32, format: Format) -> bool {
    let length = whole.len().max(1) + fraction.len();
    if format == Format::Binary {
        let short = fraction.is_empty() && 14 - length as i32 - exponent * 3 / 10 >= 0;
        return short && whole.parse::<i64>().is_ok_and(|value| value % 8 != 0);
    }
    let scale = exponent.saturating_sub(fraction.len() as i32);
    let shifted_ends_in_zeros = format!("{whole}{fraction}").ends_with("000");
    length <= 18 && scale >= NANO && scale % 3 == 0 && !shifted_ends_in_zeros && !whole.is_empty()
}

fn interpret(suffix: &str) -> Option<(u8, i32, Format)> {
    let decimal = |exponent| Some((10, exponent, Format::Decimal));
    let binary = |exponent| Some((2, exponent, Format::Binary));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((10, exponent, Format::Exponent))
        }
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: the largest suffix that leaves no fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        let whole = self.nanos % ONE == 0;
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.format == Format::Binary && whole && (self.nanos / ONE).abs() >= 1024 {
            const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let (mut amount, mut suffixes) = (self.nanos / ONE, SUFFIXES.iter());
            let mut suffix = suffixes.next();
            while amount % 1024 == 0
                && let Some(next) = suffixes.next()
            {
                amount /= 1024;
                suffix = Some(next);
            }
            return write!(f, "{amount}{}", suffix.unwrap_or(&""));
        }
        let (mut amount, mut exponent) = (self.nanos, NANO);
        while amount % 1000 == 0 && (self.format == Format::Exponent || exponent < MAX_EXPONENT) {
            (amount, exponent) = (amount / 1000, exponent + 3);
        }
        let suffix = match (self.format, exponent) {
            (_, 0) => String::new(),
            (Format::Exponent, exponent) => format!("e{exponent}"),
            (_, -9) => "n".to_owned(),
            (_, -6) => "u".to_owned(),
            (_, -3) => "m".to_owned(),
            (_, 3) => "k".to_owned(),
            (_, 6) => "M".to_owned(),
            (_, 9) => "G".to_owned(),
            (_, 12) => "T".to_owned(),
            (_, 15) => "P".to_owned(),
            _ => "E".to_owned(),
        };
        write!(f, "{amount}{suffix}")
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By amount: `1000m` is `1`.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

/// The form in which the server stores `text`: `1000m` becomes `1`, `0.1` becomes `100m`.
///
/// # Errors
/// [`Error::Quantity`] with the server's text.
pub fn canonical(text: &str) -> Result<String, Error> {
    Ok(Quantity::parse(text.trim())?.to_string())
}

/// The quantity of a JSON string or number.
///
/// # Errors
/// [`Error::Quantity`] with the server's text.
pub fn of_value(value: &Value) -> Result<Quantity, Error> {
    match value {
        Value::String(text) => Quantity::parse(text.trim()),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => Err(Error::Quantity(FORMAT_FAULT.to_owned())),
    }
}

/// Whether two JSON values (strings or numbers) are the same quantity; values that are no quantities
/// are equal when they are the same JSON.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (of_value(a), of_value(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Known from `quantity_test.go` of apimachinery.
    #[test]
    fn quantities_are_stored_in_the_servers_canonical_form() {
        let forms = [
            ("0", "0"),
            ("0.000", "0"),
            ("1000m", "1"),
            ("0.1", "100m"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1Gi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("1.5Gi", "1536Mi"),
            ("1023", "1023"),
            ("1024", "1024"),
            ("0.5Ki", "512"),
            ("1.1Ki", "1126400m"),
            ("0.001Ki", "1024m"),
            ("100k", "100k"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("1E6", "1E6"),
            ("1.234k", "1.234k"),
            ("1.5G", "1500M"),
            ("1000E0", "1e3"),
            ("1e0", "1e0"),
            ("12e2", "1200"),
            ("0.0000000001", "1n"),
            ("1e-3", "1e-3"),
            ("-1000m", "-1"),
            ("+5", "+5"),
            ("1.", "1."),
            (".5", "500m"),
            ("129e6", "129e6"),
            ("128974848", "128974848"),
            ("123Mi", "123Mi"),
            ("1E", "1E"),
            ("0001.20", "1200m"),
            ("9999999999999999999", "9999999999999999999"),
            ("99Ei", "9223372036854775807"),
        ];
        for (text, canonical_text) in forms {
            assert_eq!(canonical(text).unwrap(), canonical_text, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_quantity_is_refused_in_the_servers_words() {
        for (text, fault) in [
            ("", FORMAT_FAULT),
            ("abc", FORMAT_FAULT),
            ("1x", FORMAT_FAULT),
            ("1..2", FORMAT_FAULT),
            ("--1", FORMAT_FAULT),
            ("1mm", SUFFIX_FAULT),
            ("1Zi", FORMAT_FAULT),
            ("1eM", SUFFIX_FAULT),
            (".", NUMERIC_FAULT),
            ("99999999999999999999999999999999", NUMERIC_FAULT),
        ] {
            assert_eq!(Quantity::parse(text).unwrap_err().to_string(), fault, "{text:?}");
        }
    }

    #[test]
    fn quantities_are_equal_by_value_whatever_their_form() {
        assert!(equal(&json!("1000m"), &json!("1")));
        assert!(equal(&json!("1Gi"), &json!("1024Mi")));
        assert!(equal(&json!(0.1), &json!("100m")));
        assert!(equal(&json!(2), &json!("2")));
        assert!(!equal(&json!("1Gi"), &json!("1G")));
        assert!(equal(&json!("?"), &json!("?")) && !equal(&json!("?"), &json!("1")));
    }

    #[test]
    fn resources_are_rounded_up_to_thousandths() {
        let round = |text| Quantity::parse(text).unwrap().round_up_to_milli().to_string();
        assert_eq!(round("1u"), "1m");
        assert_eq!(round("1500u"), "2m");
        assert_eq!(round("2m"), "2m");
        assert_eq!(round("-1500u"), "-2m");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?[0-9.]{0,22}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,12}") {
            let _ = canonical(&text);
        }

        #[test]
        fn the_canonical_form_is_the_same_amount_and_stays(number in 0_u64..10_000_000, fraction in 0_u32..1000, suffix in 0_usize..16) {
            let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "e-3", "E2", "E0"][suffix];
            let text = format!("{number}.{fraction:03}{suffix}");
            let once = canonical(&text).unwrap();
            prop_assert_eq!(canonical(&once).unwrap(), once.clone());
            prop_assert_eq!(Quantity::parse(&once).unwrap(), Quantity::parse(&text).unwrap());
        }
    }
}
