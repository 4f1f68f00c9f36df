//! Correlated sets: which ranks fall back together.

use std::ffi::OsStr;
use std::path::Path;
use taffrail::words::counted;
use taffrail_agent::NodeId;
use taffrail_agent::sets::by_node;

/// The set of each rank. Sets are numbered from 0, and all ranks are in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sets(Vec<usize>);

impl Sets {
    /// `node`: the ranks of each node are one set; `rank`: each is its own; else the name of a file. `nodes` has the
    /// node of each rank.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub fn choose(how: impl AsRef<OsStr>, nodes: &[NodeId]) -> Result<Sets, String> {
        let (how, ranks) = (how.as_ref(), nodes.len());
        match how.to_str() {
            Some("node") => Ok(Sets(by_node(nodes))),
            Some("rank") => Ok(Sets((0..ranks).collect())),
            _ => {
                let file = Path::new(how);
                let about = |why: String| format!("--sets {}: {why}", file.display());
                let text = std::fs::read_to_string(file)
                    .map_err(|e| about(format!("{e}; expected node, rank or a file")))?;
                Sets::parse(&text, ranks).map_err(about)
            }
        }
    }

    /// A line for each set, with the numbers of its ranks; `#` begins a comment.
    fn parse(text: &str, ranks: usize) -> Result<Sets, String> {
        // The set of each rank, and the line that said so.
        let mut found: Vec<Option<(usize, usize)>> = vec![None; ranks];
        let mut sets = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
            let mut any = false;
            for word in words {
                let rank: usize = word.parse().map_err(|_| {
                    format!("line {number}: expected the number of a rank, got {word:?}")
                })?;
                let place = found.get_mut(rank).ok_or_else(|| {
                    format!("line {number}: no rank {rank} in a job of {}", counted(ranks, "rank"))
                })?;
                if let Some((_, before)) = place {
                    return Err(format!(
                        "line {number}: rank {rank} is in a set already, in line {before}"
                    ));
                }
                *place = Some((sets, number));
                any = true;
            }
            sets += usize::from(any);
        }
        let missing = found.iter().position(Option::is_none);
        match missing {
            Some(rank) => {
                Err(format!("rank {rank} is in no set; each rank of the job must be in one"))
            }
            None => Ok(Sets(found.into_iter().flatten().map(|(set, _)| set).collect())),
        }
    }

    /// The sets of ranks, by their numbers.
    pub fn of_numbers(sets: impl Iterator<Item = usize>) -> Sets {
        Sets(sets.collect())
    }

    /// The set of a rank.
    pub fn of(&self, rank: usize) -> usize {
        self.0[rank]
    }

    /// The ranks of a set, in order.
    pub fn members(&self, set: usize) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(move |&rank| self.0[rank] == set)
    }

    /// The set of every rank, in order.
    pub fn all(&self) -> &[usize] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_line_for_each_set() {
        let text = "# two of three\n\n0, 2\t5 # first\n ,1\n3 4";
        let sets = Sets::parse(text, 6).unwrap();
        assert_eq!(sets.all(), [0, 1, 0, 2, 2, 0]);
        assert_eq!(sets.members(sets.of(5)).collect::<Vec<_>>(), [0, 2, 5]);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let error = |text: &str| Sets::parse(text, 3).unwrap_err();
        assert_eq!(error("0 1\n2 x"), "line 2: expected the number of a rank, got \"x\"");
        assert_eq!(error("0 1\n2 3"), "line 2: no rank 3 in a job of 3 ranks");
        assert_eq!(error("0 1\n\n2 1"), "line 3: rank 1 is in a set already, in line 1");
        assert_eq!(error("0\n2"), "rank 1 is in no set; each rank of the job must be in one");
        assert!(error("").starts_with("rank 0 is in no set"));
        let missing = Sets::choose("no/such/file", &[0; 3]).unwrap_err();
        assert!(missing.starts_with("--sets no/such/file: No such file"), "{missing}");
    }

    #[test]
    fn nodes_and_ranks_need_no_file() {
        assert_eq!(Sets::choose("node", &[0; 3]), Ok(Sets(vec![0, 0, 0])));
        assert_eq!(Sets::choose("node", &[4, 4, 2]), Ok(Sets(vec![0, 0, 1])));
        assert_eq!(Sets::choose("rank", &[0; 3]), Ok(Sets(vec![0, 1, 2])));
    }
}
