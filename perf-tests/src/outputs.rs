//! Results as CSV, JSON and plots.

use crate::files::{Existing, OutFile};
use crate::plot::{self, Panel};
use crate::provenance::Provenance;
use crate::session::About;
use crate::{Error, launching, say};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};

/// Where results go besides the terminal; `-` is standard output.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Outputs {
    /// Write the results as comma-separated values; `-` is standard output, here and below: the tables go to
    /// standard error then
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Write the results and what they were measured with as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Draw the results as SVG
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Draw the results as PNG
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub png: Option<PathBuf>,
    /// Replace files that are there already, instead of refusing to measure
    #[arg(long, alias = "overwrite", help_heading = "Output")]
    pub force: bool,
}

/// Where results go besides the terminal, of a command that has nothing to draw.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct JsonOutput {
    /// Write the results and what they were measured with as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Replace the file if it is there already, instead of refusing to measure
    #[arg(long, alias = "overwrite", help_heading = "Output")]
    pub force: bool,
}

impl JsonOutput {
    /// As that of other commands.
    pub fn outputs(&self) -> Outputs {
        Outputs { json: self.json.clone(), force: self.force, ..Outputs::default() }
    }
}

impl Outputs {
    /// Whether all that is asked for can be written, as far as can be known before it is measured.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Exists`], naming the first that cannot.
    pub fn check(&self) -> Result<(), Error> {
        self.check_with(None)
    }

    /// The same, with a file that the command writes besides.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_with(&self, besides: Option<OutFile<'_>>) -> Result<(), Error> {
        let all: Vec<OutFile<'_>> = besides.into_iter().chain(self.files()).collect();
        // Of every rank, since each may print.
        if all.iter().any(OutFile::is_stdout) {
            say::leave_stdout();
        }
        // The rank that writes checks for all; a process that starts ranks does so before them. A rank
        // that is started again may have written already.
        let again = launching::incarnation()? > 0;
        if again || launching::rank().is_some_and(|rank| rank != 0) {
            return Ok(());
        }
        for (place, file) in all.iter().enumerate() {
            file.check()?;
            if all[..place].iter().any(|other| file.is_same(other)) {
                let path = file.path.display();
                return Err(Error::Usage(format!("{path} is to be two files; give two names")));
            }
        }
        Ok(())
    }

    fn files(&self) -> impl Iterator<Item = OutFile<'_>> {
        let paths = [&self.csv, &self.json, &self.svg, &self.png];
        paths.into_iter().flatten().map(|path| self.file(path))
    }

    /// A file that was named by the user.
    pub fn file<'p>(&self, path: &'p Path) -> OutFile<'p> {
        let existing = if self.force { Existing::Replace } else { Existing::Refuse };
        OutFile { path, existing }
    }

    /// Writes what was asked for: `rows` as CSV and, with `about` and what `more` is known of them, as
    /// JSON; `panels` as plots.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Plot`], naming the first that fails.
    pub fn write<M: Serialize, R: Serialize>(
        &self,
        about: &About,
        more: &M,
        rows: &[R],
        panels: &[Panel],
    ) -> Result<(), Error> {
        let from = &about.from;
        if let Some(path) = &self.csv {
            let text = csv(from, rows).map_err(Error::file(path))?;
            self.file(path).write(&text)?;
        }
        if let Some(path) = &self.json {
            let text = json(about, more, rows).map_err(Error::file(path))?;
            self.file(path).write(&text)?;
        }
        let failed = |path: &PathBuf, reason| Error::Plot { path: path.clone(), reason };
        if let Some(path) = &self.svg {
            let text = plot::svg(panels, from).map_err(|reason| failed(path, reason))?;
            self.file(path).write(text.as_bytes())?;
        }
        if let Some(path) = &self.png {
            let image = plot::png(panels, from).map_err(|reason| failed(path, reason))?;
            self.file(path).write(&image)?;
        }
        Ok(())
    }
}

/// A JSON object `{"about": .., "rows": [..]}`.
fn json<M: Serialize, R: Serialize>(about: &About, more: &M, rows: &[R]) -> io::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Document<'d, M, R> {
        about: All<'d, M>,
        rows: &'d [R],
    }
    #[derive(Serialize)]
    struct All<'d, M> {
        #[serde(flatten)]
        about: &'d About,
        #[serde(flatten)]
        more: &'d M,
    }
    let mut text = serde_json::to_vec_pretty(&Document { about: All { about, more }, rows })?;
    text.push(b'\n');
    Ok(text)
}

/// Where the figures come from, each line behind a `#`, and one record a row. A field within a field `a`
/// is the column `a_field`; lists are left to JSON. What a row does not have is empty.
fn csv<R: Serialize>(from: &Provenance, rows: &[R]) -> io::Result<Vec<u8>> {
    let rows: Vec<Vec<(String, String)>> = rows
        .iter()
        .map(|row| {
            let row = serde_json::to_value(row)?;
            let mut columns = Vec::new();
            flatten("", row.as_object().unwrap_or(&Map::new()), &mut columns);
            Ok(columns)
        })
        .collect::<io::Result<_>>()?;
    // A field that is missing has none of the columns of one that is there.
    let fullest = rows.iter().max_by_key(|row| row.len());
    let names: Vec<&str> = fullest.into_iter().flatten().map(|(name, _)| &**name).collect();
    // A word of the command may be of several lines.
    let above = from.lines().map(|line| format!("# {}\n", line.replace('\n', "\n# ")));
    let mut writer = csv::Writer::from_writer(above.concat().into_bytes());
    if !names.is_empty() {
        writer.write_record(&names)?;
    }
    for row in &rows {
        let cell =
            |&name: &&str| row.iter().find(|(own, _)| own == name).map_or("", |(_, text)| text);
        writer.write_record(names.iter().map(cell))?;
    }
    writer.into_inner().map_err(|e| io::Error::other(e.to_string()))
}

fn flatten(prefix: &str, row: &Map<String, Value>, into: &mut Vec<(String, String)>) {
    for (name, value) in row {
        let name = format!("{prefix}{name}");
        match value {
            Value::Array(_) => {}
            Value::Object(fields) => flatten(&format!("{name}_"), fields, into),
            Value::Null => into.push((name, String::new())),
            Value::String(text) => into.push((name, text.clone())),
            figure => into.push((name, figure.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    #[derive(Serialize)]
    struct Row {
        size: usize,
        peer: Option<f64>,
        time_us: Spread,
        ratio: Option<Spread>,
        trials_us: Vec<f64>,
    }

    #[test]
    fn files_hold_what_was_measured() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = Outputs {
            csv: Some(folder.path().join("rows.csv")),
            json: Some(folder.path().join("rows.json")),
            ..Outputs::default()
        };
        let rows = [
            Row {
                size: 8,
                peer: None,
                time_us: Spread::of(&[1.0, 2.0, 3.0]),
                ratio: None,
                trials_us: vec![1.0],
            },
            Row {
                size: 64,
                peer: Some(0.5),
                time_us: Spread::default(),
                ratio: Some(Spread::of(&[0.5])),
                trials_us: vec![],
            },
        ];
        #[derive(Serialize)]
        struct More {
            rounds: u32,
        }
        outputs.check().unwrap();
        let about = About::new(None);
        outputs.write(&about, &More { rounds: 2 }, &rows, &[]).unwrap();

        let text = std::fs::read_to_string(outputs.csv.unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], about.from.lines().map(|line| format!("# {line}")));
        assert_eq!(
            lines[2..],
            [
                "size,peer,time_us_median,time_us_p1,time_us_p99,time_us_samples,\
                 ratio_median,ratio_p1,ratio_p99,ratio_samples",
                "8,,2.0,1.02,2.98,3,,,,",
                "64,0.5,0.0,0.0,0.0,0,0.5,0.5,0.5,1",
            ]
        );
        let json: Value =
            serde_json::from_slice(&std::fs::read(outputs.json.unwrap()).unwrap()).unwrap();
        assert_eq!(
            (&json["about"]["rounds"], &json["about"]["host"]),
            (&Value::from(2), &Value::from(about.from.host))
        );
        assert_eq!(json["rows"][0]["trials_us"][0], 1.0);
        assert_eq!(json["rows"][1]["peer"], 0.5);
    }

    #[test]
    fn what_cannot_be_written_is_named_before_and_after() {
        let outputs = Outputs { json: Some("/nonexistent/rows.json".into()), ..Outputs::default() };
        let about = About::new(None);
        let after = outputs.write(&about, &(), &[0; 0], &[]).map(|()| "written");
        for error in [outputs.check().map(|()| "good"), after].map(Result::unwrap_err) {
            assert!(error.to_string().starts_with("/nonexistent/rows.json: "), "{error}");
        }
    }

    #[test]
    fn one_file_is_not_two() {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().join("rows"));
        let outputs = Outputs { csv: path.clone(), json: path, ..Outputs::default() };
        let error = outputs.check().unwrap_err().to_string();
        assert!(error.contains("two names"), "{error}");
        let nowhere = Some("/dev/null".into());
        let outputs = Outputs { csv: nowhere.clone(), json: nowhere, ..Outputs::default() };
        outputs.check().unwrap();
    }
}
