//! Every default of the seam's traits passes its call on to the decorated object, so that no decorator loses a call.

/// The bodies of the default methods in the source of a trait, with their signatures.
fn defaults(source: &str) -> Vec<&str> {
    let methods = source.split("\n    fn ").skip(1);
    let bodies = methods.filter_map(|method| method.split_once("\n    }\n").map(|(body, _)| body));
    bodies.filter(|body| !body.lines().next().is_some_and(|signature| signature.ends_with(';'))).collect()
}

#[test]
fn every_default_calls_the_decorated_object() {
    let sources = [include_str!("../seam.rs"), include_str!("../file.rs"), include_str!("../mapping.rs")];
    let defaults: Vec<&str> = sources.into_iter().flat_map(defaults).collect();
    let forgotten = defaults.iter().filter(|body| !body.starts_with("inner(") && !body.contains("self.inner()"));
    let forgotten: Vec<_> = forgotten.filter_map(|body| body.lines().next()).collect();
    assert!(defaults.len() > 25, "only {} defaults were found", defaults.len());
    assert!(forgotten.is_empty(), "{forgotten:#?} must call `self.inner()`");
}
