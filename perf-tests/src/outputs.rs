//! Results as CSV, JSON and plots.

use crate::Error;
use crate::plot::{self, Panel};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where results go besides the terminal.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Outputs {
    /// Write the results as comma-separated values
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
}

impl Outputs {
    /// Writes what was asked for: `rows` with `about` as CSV and JSON, `panels` as plots.
    pub fn write<A: Serialize, R: Serialize>(
        &self,
        about: &A,
        rows: &[R],
        panels: &[Panel],
    ) -> Result<(), Error> {
        if let Some(path) = &self.csv {
            write_csv(path, rows)?;
        }
        if let Some(path) = &self.json {
            write_json(path, about, rows)?;
        }
        if let Some(path) = &self.svg {
            plot::draw_svg(path, panels)?;
        }
        if let Some(path) = &self.png {
            plot::draw_png(path, panels)?;
        }
        Ok(())
    }
}

/// A JSON object `{"about": .., "rows": [..]}`.
fn write_json<A: Serialize, R: Serialize>(path: &Path, about: &A, rows: &[R]) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Document<'d, A, R> {
        about: &'d A,
        rows: &'d [R],
    }
    let mut file = BufWriter::new(File::create(path).map_err(Error::file(path))?);
    serde_json::to_writer_pretty(&mut file, &Document { about, rows })
        .map_err(|e| Error::file(path)(e.into()))?;
    writeln!(file).and_then(|()| file.flush()).map_err(Error::file(path))
}

/// One record a row. A field within a field `a` is the column `a_field`; lists are left to JSON. What a row
/// does not have is empty.
fn write_csv<R: Serialize>(path: &Path, rows: &[R]) -> Result<(), Error> {
    let failed = |e: csv::Error| Error::file(path)(e.into());
    let mut writer = csv::Writer::from_path(path).map_err(failed)?;
    let rows: Vec<Vec<(String, String)>> = rows
        .iter()
        .map(|row| {
            let row = serde_json::to_value(row).map_err(|e| Error::file(path)(e.into()))?;
            let mut columns = Vec::new();
            flatten("", row.as_object().unwrap_or(&Map::new()), &mut columns);
            Ok(columns)
        })
        .collect::<Result<_, Error>>()?;
    // A field that is missing has none of the columns of one that is there.
    let fullest = rows.iter().max_by_key(|row| row.len());
    let names: Vec<&str> = fullest.into_iter().flatten().map(|(name, _)| &**name).collect();
    if !names.is_empty() {
        writer.write_record(&names).map_err(failed)?;
    }
    for row in &rows {
        let cell =
            |&name: &&str| row.iter().find(|(own, _)| own == name).map_or("", |(_, text)| text);
        writer.write_record(names.iter().map(cell)).map_err(failed)?;
    }
    writer.flush().map_err(Error::file(path))
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
        outputs.write(&"two rows", &rows, &[]).unwrap();

        let text = std::fs::read_to_string(outputs.csv.unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "size,peer,time_us_median,time_us_p1,time_us_p99,time_us_samples,\
                 ratio_median,ratio_p1,ratio_p99,ratio_samples",
                "8,,2.0,1.02,2.98,3,,,,",
                "64,0.5,0.0,0.0,0.0,0,0.5,0.5,0.5,1",
            ]
        );
        let json: Value =
            serde_json::from_reader(File::open(outputs.json.unwrap()).unwrap()).unwrap();
        assert_eq!(json["about"], "two rows");
        assert_eq!(json["rows"][0]["trials_us"][0], 1.0);
        assert_eq!(json["rows"][1]["peer"], 0.5);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let outputs = Outputs { json: Some("/nonexistent/rows.json".into()), ..Outputs::default() };
        let error = outputs.write(&(), &[0; 0], &[]).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/rows.json: "), "{error}");
    }
}
