//! Tests of the face.
