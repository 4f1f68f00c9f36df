//! The process's side of PMIx, for launchers that speak no PMI-1.

use crate::pmi::OUR_KEYS;

/// The connection to the launcher.
#[derive(Debug)]
pub(super) struct Client {
    pmix: taffrail_pmix::Client,
    exchanges: u32,
}

impl Client {
    /// Joins the job that `env` describes; `None` if none is described, or PMI-1 will do.
    pub(super) fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Option<Client>, String> {
        let all = ["PMIX_RANK", "PMIX_NAMESPACE"].iter().all(|name| env(name).is_some());
        if !all || env("PMI_FD").is_some() || env("PMI_PORT").is_some() {
            return Ok(None);
        }
        let pmix = taffrail_pmix::Client::join().map_err(in_words)?;
        Ok(Some(Client { pmix, exchanges: 0 }))
    }

    pub(super) fn rank(&self) -> u32 {
        self.pmix.rank()
    }

    pub(super) fn size(&self) -> u32 {
        self.pmix.size()
    }

    pub(super) fn job(&self) -> &str {
        self.pmix.job()
    }

    pub(super) fn barrier(&mut self) -> Result<(), String> {
        self.pmix.barrier().map_err(in_words)
    }

    /// Gives every rank's `mine` to every rank.
    pub(super) fn exchange(&mut self, label: &str, mine: &str) -> Result<Vec<String>, String> {
        let key = format!("{OUR_KEYS}{}", self.exchanges);
        self.exchanges += 1;
        let all = self.pmix.exchange(&key, &format!("{label}\n{mine}")).map_err(in_words)?;
        let theirs = |(rank, text): (u32, String)| match text.split_once('\n') {
            Some((theirs, value)) if theirs == label => Ok(value.to_owned()),
            other => Err(super::out_of_step(rank, other.map_or("", |(theirs, _)| theirs), label)),
        };
        (0..).zip(all).map(theirs).collect()
    }
}

fn in_words(e: taffrail_pmix::Error) -> String {
    format!("PMIx: {e}")
}
