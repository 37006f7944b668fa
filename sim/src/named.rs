//! Enumerations whose variants have a name on the wire, listed once.

/// Declares an enumeration with `ALL`, `name` and `parse`.
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $kind:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $kind { $($(#[$variant_meta])* $variant,)* }

        impl $kind {
            /// Every one of them.
            $vis const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name on the wire, in rules and in the ledger.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

pub(crate) use named;
