//! `FI_TAFFRAIL_*`: settings in the environment, and how `fi_info -g` comes to know them.

use crate::abi::constants::FI_PARAM_STRING;
use crate::abi::provider::fi_provider;
use crate::reasons::{self, Reasons};
use crate::say::say;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io::IsTerminal;
use std::sync::Once;
use taffrail::environment::{self, Use, VARIABLES, value};
use taffrail::{Error, Settings};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, registry};

/// The parameters, each with its name (without `FI_TAFFRAIL_`, in small letters, as libfabric wants them) and
/// what it means.
fn parameters() -> impl Iterator<Item = (CString, CString)> {
    let ours = VARIABLES.iter().filter_map(|variable| match variable.of {
        Use::Endpoint => Some((variable.name.strip_prefix("TAFFRAIL_")?, variable.meaning)),
        _ => Some((variable.name.strip_prefix("FI_TAFFRAIL_")?, variable.meaning)),
    });
    ours.filter_map(|(name, meaning)| {
        Some((CString::new(name.to_lowercase()).ok()?, CString::new(meaning).ok()?))
    })
}

/// Settings of an endpoint: `FI_TAFFRAIL_X`, else `TAFFRAIL_X`, else the default.
pub fn of_endpoint() -> Result<Settings, Error> {
    environment::warn_of_unknown();
    Settings::from_lookup(|name| value(&format!("FI_{name}")).or_else(|| value(name)))
}

/// Whether `taffrail run` logs the messages of this process. Allocates nothing: where to, depends on it.
pub fn is_logged() -> bool {
    environment::is_logged_by(look) && !is_of_other_job()
}

/// Whether this process runs below a rank of `taffrail run` and is not of its job.
pub fn is_of_other_job() -> bool {
    environment::is_of_other_job(look)
}

/// The value of a variable, where it is.
fn look(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends with a zero byte. That nobody changes the environment beside us is what
    // everything that reads it relies on.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: what is found is a string, which is looked at before anybody can change it.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) }.to_bytes())
}

/// Begins to write the log, if `FI_TAFFRAIL_LOG` or `TAFFRAIL_LOG` asks for one.
pub fn start_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The first that is set decides.
        let asked = ["FI_TAFFRAIL_LOG", "TAFFRAIL_LOG"].into_iter().find_map(|name| {
            environment::log_filter(name, |text| EnvFilter::try_new(text)).transpose()
        });
        match asked {
            Some(Ok(filter)) => tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(std::io::stderr)
                .with_ansi(std::io::stderr().is_terminal())
                .try_init()
                .unwrap_or_else(|error| say(&format!("no log: {error}"))),
            Some(Err(error)) => {
                say(&error.to_string());
                say_reasons();
            }
            None => say_reasons(),
        }
    });
}

/// Says what the layers below report.
fn say_reasons() {
    let filter = EnvFilter::new(reasons::FILTER);
    let _ = registry().with(filter).with(Reasons::default()).try_init();
}

/// Tells libfabric which parameters there are, for `fi_info -g`. Its function is looked up among the
/// symbols that the program has loaded, since nothing of libfabric is linked; where it was loaded
/// privately, the parameters work and are not listed.
pub fn announce(provider: &fi_provider) {
    type Define =
        unsafe extern "C" fn(*const fi_provider, *const c_char, c_int, *const c_char, ...) -> c_int;
    // SAFETY: a look-up by name has no preconditions.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"fi_param_define".as_ptr()) };
    if found.is_null() {
        tracing::debug!("fi_param_define is not to be seen: fi_info -g lists no FI_TAFFRAIL_*");
        return;
    }
    // SAFETY: libfabric has had this function with this signature since 1.0.
    let define: Define = unsafe { std::mem::transmute(found) };
    for (name, help) in parameters() {
        // SAFETY: strings end with a zero, and the help has no directives that want arguments.
        unsafe { define(provider, name.as_ptr(), FI_PARAM_STRING, help.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_helps_can_be_given_to_libfabric() {
        let all: Vec<_> = parameters().collect();
        assert!(all.iter().any(|(name, _)| name.as_c_str() == c"eager_max"));
        assert!(all.iter().any(|(name, _)| name.as_c_str() == c"log"));
        for (name, help) in all {
            assert!(!help.to_str().unwrap().contains('%'), "{name:?}: the help is a format");
        }
    }
}
