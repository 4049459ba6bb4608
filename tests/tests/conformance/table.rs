//! The committed tables: what was compared, and what differs on purpose.
//!
//! Each test holds the rows of its subject; `BLESS=1` writes them.

use crate::differ::{Difference, fits};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/README.md");
const COUNTS: &str = "| subject | requests | equal | different on purpose |";
const DIFFERENCES: &str = "| subject | request | field | real server | devcluster | why |";
/// Longest value that is shown whole.
const SHOWN: usize = 160;

/// Something that devcluster does otherwise on purpose.
#[derive(Debug)]
pub(crate) struct Intended {
    /// The steps, with `*` for anything.
    pub(crate) step: &'static str,
    /// The fields, with `*` for anything.
    pub(crate) at: &'static str,
    pub(crate) why: &'static str,
}

/// What a run of one subject found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) requests: usize,
    /// By step.
    pub(crate) differences: Vec<(String, Difference)>,
}

impl Findings {
    /// Those that nobody intended.
    pub(crate) fn unintended<'a>(
        &'a self,
        intended: &'a [Intended],
    ) -> impl Iterator<Item = &'a (String, Difference)> {
        self.differences.iter().filter(|(step, d)| !intended.iter().any(|i| i.covers(step, &d.at)))
    }

    /// Intended differences that did not occur.
    pub(crate) fn missing<'a>(&self, intended: &'a [Intended]) -> Vec<&'a Intended> {
        intended.iter().filter(|i| !self.differences.iter().any(|(step, d)| i.covers(step, &d.at))).collect()
    }

    fn different(&self) -> usize {
        let mut steps: Vec<_> = self.differences.iter().map(|(step, _)| step).collect();
        steps.dedup();
        steps.len()
    }

    fn count_row(&self, subject: &str) -> String {
        let different = self.different();
        format!("| {subject} | {} | {} | {different} |", self.requests, self.requests - different)
    }

    fn difference_rows(&self, subject: &str, intended: &[Intended]) -> Vec<String> {
        let row = |i: &Intended| {
            let (step, first) = self.differences.iter().find(|(step, d)| i.covers(step, &d.at))?;
            let times = self.differences.iter().filter(|(step, d)| i.covers(step, &d.at)).count();
            let at = if times > 1 {
                format!("`{}` and {} more", first.at, times - 1)
            } else {
                format!("`{}`", first.at)
            };
            let (real, dev) = (shown(first.real.as_ref()), shown(first.dev.as_ref()));
            Some(format!("| {subject} | {step} | {at} | {real} | {dev} | {} |", i.why))
        };
        intended.iter().filter_map(row).collect()
    }
}

impl Intended {
    fn covers(&self, step: &str, at: &str) -> bool {
        fits(self.step, step) && fits(self.at, at)
    }
}

/// A value in a cell of a table.
fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "absent".to_owned() };
    let text = value.to_string().replace('|', "\\|").replace('`', "'");
    match text.char_indices().nth(SHOWN) {
        None => format!("`{text}`"),
        Some((end, _)) => format!("`{}`…", text.get(..end).unwrap_or_default()),
    }
}

/// Rows by subject, of the table under `head`.
fn rows(text: &str, head: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let lines = text.lines().skip_while(|line| *line != head).skip(2);
    for line in lines.take_while(|line| line.starts_with('|')) {
        let subject = line.split('|').nth(1).unwrap_or_default().trim().to_owned();
        found.entry(subject).or_default().push(line.to_owned());
    }
    found.remove("all");
    found
}

fn write_rows(text: &str, head: &str, rows: &BTreeMap<String, Vec<String>>) -> String {
    let mut out = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line == head {
            let columns = head.matches('|').count() - 1;
            let _ = writeln!(out, "{head}\n{}|", "|---".repeat(columns));
            for row in rows.values().flatten() {
                let _ = writeln!(out, "{row}");
            }
            if head == COUNTS {
                let _ = writeln!(out, "{}", total(rows));
            }
            inside = true;
        } else if !(inside && line.starts_with('|')) {
            inside = false;
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

/// The last row of the counts.
fn total(rows: &BTreeMap<String, Vec<String>>) -> String {
    let mut sums = [0; 3];
    for row in rows.values().flatten() {
        let cells = row.split('|').skip(2).filter_map(|cell| cell.trim().parse::<usize>().ok());
        for (sum, cell) in sums.iter_mut().zip(cells) {
            *sum += cell;
        }
    }
    format!("| all | {} | {} | {} |", sums[0], sums[1], sums[2])
}

/// Compares the rows of a subject with the committed ones, or commits them; says what is wrong.
pub(crate) fn hold(subject: &str, findings: &Findings, intended: &[Intended]) -> Result<(), String> {
    static FILE_LOCK: Mutex<()> = Mutex::new(());
    let count = vec![findings.count_row(subject)];
    let differences = findings.difference_rows(subject, intended);
    println!("{COUNTS}\n{}\n", count.concat());
    let _lock = FILE_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = std::fs::read_to_string(FILE).map_err(|e| format!("{FILE}: {e}"))?;
    let (mut counts, mut all) = (rows(&text, COUNTS), rows(&text, DIFFERENCES));
    if std::env::var_os("BLESS").is_some() {
        counts.insert(subject.to_owned(), count);
        all.remove(subject);
        if !differences.is_empty() {
            all.insert(subject.to_owned(), differences);
        }
        text = write_rows(&text, COUNTS, &counts);
        text = write_rows(&text, DIFFERENCES, &all);
        return std::fs::write(FILE, text).map_err(|e| format!("{FILE}: {e}"));
    }
    for (what, committed, counted) in
        [("counts", counts.get(subject), count), ("differences on purpose", all.get(subject), differences)]
    {
        let committed = committed.cloned().unwrap_or_default();
        if committed != counted {
            return Err(format!(
                "the committed {what} are\n{}\nand the run has\n{}\n(BLESS=1 writes them to {FILE})",
                committed.join("\n"),
                counted.join("\n")
            ));
        }
    }
    Ok(())
}

/// The committed table has these subjects and no others, and adds up.
pub(crate) fn check_subjects(subjects: &[&str]) {
    let text = std::fs::read_to_string(FILE).expect("the table");
    let counts = rows(&text, COUNTS);
    let mut wanted: Vec<_> = subjects.to_vec();
    wanted.sort_unstable();
    assert_eq!(counts.keys().map(String::as_str).collect::<Vec<_>>(), wanted, "subjects in {FILE}");
    assert!(rows(&text, DIFFERENCES).keys().all(|subject| counts.contains_key(subject)));
    assert!(text.lines().any(|line| line == total(&counts)), "the sum in {FILE} is {}", total(&counts));
}
