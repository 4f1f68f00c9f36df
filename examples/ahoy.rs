//! Every rank says something to rank 0, which prints it.

use taffrail::{Job, Pattern};

fn main() -> Result<(), taffrail::Error> {
    let mut job = Job::from_env()?;
    let mut endpoint = job.endpoint()?;
    let (me, size) = (endpoint.rank(), endpoint.size());
    if me != 0 {
        endpoint.send((0, 7), format!("ahoy from {me}").as_bytes())?;
        return Ok(());
    }
    for _ in 1..size {
        let mut text = [0; 64];
        let status = endpoint.recv(Pattern::any_source(7), &mut text)?;
        println!("{}", String::from_utf8_lossy(&text[..status.len]));
    }
    Ok(())
}
