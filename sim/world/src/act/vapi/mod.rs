//! Effects of commands and requests about what vAPI manages: tags and content libraries.

mod libraries;
mod tags;
