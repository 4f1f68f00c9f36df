//! What the user has set that keeps an MPI from Taffrail. It stays as it is, and is said.

use super::Mpi;

/// A variable with a list of names, of which one has to be in it: `a,b`, or `^a,b` for all but these.
struct Choice {
    variable: &'static str,
    needs: &'static str,
    /// It lists what is left out.
    leaves_out: bool,
}

const fn choice(variable: &'static str, needs: &'static str) -> Choice {
    Choice { variable, needs, leaves_out: false }
}

/// Of libfabric, whoever calls it.
const ALL: &[Choice] = &[choice("FI_PROVIDER", "taffrail")];

const MPICH: &[Choice] =
    &[choice("MPIR_CVAR_OFI_USE_PROVIDER", "taffrail"), choice("MPIR_CVAR_CH4_NETMOD", "ofi")];

const INTEL: &[Choice] =
    &[choice("I_MPI_OFI_PROVIDER", "taffrail"), choice("I_MPI_FABRICS", "ofi")];

const OPEN_MPI: &[Choice] = &[
    choice("OMPI_MCA_mtl_ofi_provider_include", "taffrail"),
    Choice { variable: "OMPI_MCA_mtl_ofi_provider_exclude", needs: "taffrail", leaves_out: true },
    choice("OMPI_MCA_pml", "cm"),
    choice("OMPI_MCA_mtl", "ofi"),
];

/// A line for each variable of the environment because of which this MPI, or any if it is not known which, does not
/// use Taffrail.
pub fn not_used(mpi: Option<Mpi>) -> Vec<String> {
    lines(mpi, taffrail::environment::value)
}

fn lines(mpi: Option<Mpi>, value: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let of =
        |which: Mpi, choices| if mpi.is_none_or(|mpi| mpi == which) { choices } else { &[][..] };
    let all = [ALL, of(Mpi::Mpich, MPICH), of(Mpi::Intel, INTEL), of(Mpi::Open, OPEN_MPI)];
    let excluding = all.into_iter().flatten().filter_map(|choice| {
        let value = value(choice.variable).filter(|value| choice.excludes(value))?;
        Some((choice, value))
    });
    let who = mpi.map_or("an MPI", Mpi::name);
    excluding.map(|(choice, value)| choice.in_words(&value, who)).collect()
}

impl Choice {
    fn excludes(&self, value: &str) -> bool {
        let value = value.trim();
        let (all_but, list) = match value.strip_prefix('^') {
            Some(list) => (true, list),
            None => (self.leaves_out, value),
        };
        let named =
            list.split([',', ';', ':']).any(|name| name.trim().eq_ignore_ascii_case(self.needs));
        // What is empty is not set.
        !value.is_empty() && named == all_but
    }

    fn in_words(&self, value: &str, who: &str) -> String {
        let Choice { variable, needs, leaves_out } = self;
        let remedy = match leaves_out {
            true => format!("take {needs} out of it"),
            false => format!("unset it, or set {variable}={needs}"),
        };
        format!(
            "Taffrail is not used: {variable}={value} in the environment keeps {who} from it; {remedy}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(mpi: Option<Mpi>, name: &str, value: &str) -> Vec<String> {
        lines(mpi, |asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn another_provider_is_named() {
        let line = said(Some(Mpi::Mpich), "FI_PROVIDER", "tcp");
        let expected = "Taffrail is not used: FI_PROVIDER=tcp in the environment keeps MPICH from it; unset it, or \
                        set FI_PROVIDER=taffrail";
        assert_eq!(line, [expected]);
        for (mpi, name, value) in [
            (Mpi::Mpich, "FI_PROVIDER", "^taffrail"),
            (Mpi::Mpich, "MPIR_CVAR_CH4_NETMOD", "ucx"),
            (Mpi::Mpich, "MPIR_CVAR_OFI_USE_PROVIDER", "sockets"),
            (Mpi::Intel, "I_MPI_FABRICS", "shm"),
            (Mpi::Intel, "I_MPI_OFI_PROVIDER", "psm3"),
            (Mpi::Open, "OMPI_MCA_pml", "ob1"),
            (Mpi::Open, "OMPI_MCA_pml", "^cm,ucx"),
            (Mpi::Open, "OMPI_MCA_mtl", "^ofi"),
            (Mpi::Open, "OMPI_MCA_mtl_ofi_provider_include", "tcp,verbs"),
            (Mpi::Open, "OMPI_MCA_mtl_ofi_provider_exclude", "shm, taffrail"),
            (Mpi::Open, "FI_PROVIDER", "ofi_rxm;tcp"),
        ] {
            assert_eq!(said(Some(mpi), name, value).len(), 1, "{name}={value}");
            assert_eq!(said(None, name, value).len(), 1, "{name}={value}");
        }
    }

    #[test]
    fn what_takes_it_is_not_named() {
        for (mpi, name, value) in [
            (Mpi::Mpich, "FI_PROVIDER", "taffrail"),
            (Mpi::Mpich, "FI_PROVIDER", "tcp,taffrail"),
            (Mpi::Mpich, "FI_PROVIDER", "^tcp"),
            (Mpi::Mpich, "FI_PROVIDER", ""),
            (Mpi::Mpich, "MPIR_CVAR_CH4_NETMOD", "ofi"),
            (Mpi::Mpich, "OMPI_MCA_pml", "ob1"),
            (Mpi::Intel, "I_MPI_FABRICS", "shm:ofi"),
            (Mpi::Open, "OMPI_MCA_pml", "cm"),
            (Mpi::Open, "OMPI_MCA_pml", "^ucx"),
            (Mpi::Open, "OMPI_MCA_mtl_ofi_provider_exclude", "shm,tcp"),
            (Mpi::Open, "MPIR_CVAR_CH4_NETMOD", "ucx"),
        ] {
            assert_eq!(said(Some(mpi), name, value), [""; 0], "{name}={value}");
        }
    }
}
