use super::*;

#[test]
fn names_are_those_of_the_variants_and_are_read() {
    for &mutant in Mutant::ALL {
        let mut name = String::new();
        for (at, letter) in format!("{mutant:?}").char_indices() {
            if letter.is_uppercase() && at > 0 {
                name.push('-');
            }
            name.extend(letter.to_lowercase());
        }
        assert_eq!(mutant.name(), name);
        assert_eq!(name.parse(), Ok(mutant));
    }
    let unknown = "gate".parse::<Mutant>().unwrap_err();
    assert_eq!(unknown.to_string(), "there is no mutant \"gate\"");
}

#[cfg(not(mutants))]
#[test]
fn a_product_has_none() {
    assert!(!mutant!(GateIgnored));
    assert_eq!(select(Some(Mutant::GateIgnored)), Err(NoMutants));
    assert_eq!((select(None), selected()), (Ok(()), None));
}

#[cfg(mutants)]
#[test]
fn one_is_selected_in_one_thread() {
    assert_eq!(selected(), None);
    assert_eq!(select(Some(Mutant::GateIgnored)), Ok(()));
    assert!(mutant!(GateIgnored) && !mutant!(AckUngated));
    std::thread::spawn(|| assert_eq!(selected(), None)).join().unwrap();
    assert_eq!(select(None), Ok(()));
    assert!(!mutant!(GateIgnored));
}
