//! Generates `src/generated.rs` and `src/descriptor.bin` of the crate above from
//! `proto/externalgrpc.proto`. With `--check` compares instead, and fails if they differ.

use std::{fs, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = std::env::temp_dir().join(format!("externalgrpc-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
    let files = protox::compile([here.join("proto/externalgrpc.proto")], [here.join("proto")])
        .unwrap_or_else(|err| panic!("{err}"));
    let mut plain = files.clone();
    // Positions and comments are not part of what reflection serves.
    plain.file.iter_mut().for_each(|file| file.source_code_info = None);
    tonic_prost_build::configure()
        .build_transport(false)
        .build_client(false)
        .btree_map(".")
        .out_dir(&folder)
        .compile_fds(files)
        .expect("the definition is valid");
    let code = folder.join("clusterautoscaler.cloudprovider.v1.externalgrpc.rs");
    let code = fs::read(code).expect("the generator writes one file per package");
    fs::remove_dir_all(&folder).expect("the folder exists");
    let descriptor = {
        use prost::Message as _;
        plain.encode_to_vec()
    };
    let is_check = std::env::args().any(|argument| argument == "--check");
    let mut differs = false;
    for (name, content) in [("src/generated.rs", code), ("src/descriptor.bin", descriptor)] {
        let path = here.join(name);
        if !is_check {
            fs::write(&path, content).expect("the source folder is writable");
        } else if fs::read(&path).ok() != Some(content) {
            eprintln!("provider/externalgrpc/{name} is not what the definition generates");
            eprintln!(
                "remedy: cargo run --manifest-path provider/externalgrpc/generate/Cargo.toml"
            );
            differs = true;
        }
    }
    ExitCode::from(u8::from(differs))
}
