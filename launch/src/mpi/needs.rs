//! What a program needs of its MPI that it does not get here as it is, by the functions that it is linked with.

/// The functions that count, without what Fortran puts behind names, and profilers in front.
const SHARED_WINDOWS: &str = "mpi_win_allocate_shared";
const WINDOWS: [&str; 2] = ["mpi_win_create", "mpi_win_allocate"];
const SESSIONS: &str = "mpi_session_init";

/// What is needed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Windows in memory that the ranks of a node share.
    pub shared_windows: bool,
    /// Windows of any kind.
    pub windows: bool,
    /// To be initialised more than once, perhaps.
    pub sessions: bool,
}

impl Needs {
    /// Of a program that calls these functions.
    pub fn of<'a>(functions: impl Iterator<Item = &'a str>) -> Needs {
        let mut needs = Needs::default();
        for function in functions {
            let name = function.to_ascii_lowercase();
            let name = name.strip_prefix('p').unwrap_or(&name);
            needs.shared_windows |= name.starts_with(SHARED_WINDOWS);
            needs.windows |= WINDOWS.iter().any(|window| name.starts_with(window));
            needs.sessions |= name.starts_with(SESSIONS);
        }
        needs
    }

    /// What one of them or both need.
    pub fn or(self, other: Needs) -> Needs {
        Needs {
            shared_windows: self.shared_windows || other.shared_windows,
            windows: self.windows || other.windows,
            sessions: self.sessions || other.sessions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_c_and_fortran() {
        let of = |name: &'static str| Needs::of(["MPI_Init", name].into_iter());
        let (shared_windows, windows, sessions) = (true, true, true);
        for name in [
            "MPI_Win_allocate_shared",
            "mpi_win_allocate_shared_cptr_",
            "PMPI_Win_allocate_shared_c",
        ] {
            assert_eq!(of(name), Needs { shared_windows, windows, sessions: false }, "{name}");
        }
        for name in ["MPI_Session_init", "mpi_session_init_"] {
            assert_eq!(of(name), Needs { sessions, ..Needs::default() }, "{name}");
        }
        for name in ["MPI_Win_allocate", "mpi_win_create_", "MPI_Win_create_dynamic"] {
            assert_eq!(of(name), Needs { windows, ..Needs::default() }, "{name}");
        }
        assert_eq!(of("MPI_Win_free"), Needs::default());
        assert_eq!(
            of("MPI_Session_init").or(of("mpi_win_allocate_shared_")),
            Needs { shared_windows, windows, sessions }
        );
    }
}
