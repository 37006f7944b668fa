//! Operators and functions of expressions, each with the types that it takes and returns.
//!
//! The table lists what kube-apiserver 1.36 offers to rules. A signature that ends in `!` belongs
//! to a function that the real server evaluates and this store does not.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::types::{Order, Type};

/// One signature of a function: an overload.
#[derive(Debug)]
pub(super) struct Signature {
    /// Type before the dot of a method; `None` for a function.
    pub(super) receiver: Option<Type>,
    pub(super) takes: Vec<Type>,
    pub(super) returns: Type,
    /// False if only the real server evaluates the function.
    pub(super) is_evaluated: bool,
}

/// Returns the signatures of a function or operator; `None` if it does not exist.
pub(super) fn signatures(name: &str) -> Option<&'static [Signature]> {
    static ALL: LazyLock<BTreeMap<&str, Vec<Signature>>> = LazyLock::new(|| {
        let lines = TABLE.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(name, all)| (name, all.split(' ').filter_map(read).collect())).collect()
    });
    ALL.get(name).map(Vec::as_slice)
}

const TABLE: &str = "\
_+_ (int,int)int (uint,uint)uint (double,double)double (string,string)string (bytes,bytes)bytes (list(A),list(A))list(A) (timestamp,duration)timestamp (duration,timestamp)timestamp (duration,duration)duration
_-_ (int,int)int (uint,uint)uint (double,double)double (timestamp,timestamp)duration (timestamp,duration)timestamp (duration,duration)duration
_*_ (int,int)int (uint,uint)uint (double,double)double
_/_ (int,int)int (uint,uint)uint (double,double)double
_%_ (int,int)int (uint,uint)uint
-_ (int)int (double)double
!_ (bool)bool
_&&_ (bool,bool)bool
_||_ (bool,bool)bool
_?_:_ (bool,A,A)A
_==_ (A,A)bool
_!=_ (A,A)bool
_<_ (bool,bool)bool (int,int)bool (int,uint)bool (int,double)bool (uint,uint)bool (uint,int)bool (uint,double)bool (double,double)bool (double,int)bool (double,uint)bool (string,string)bool (bytes,bytes)bool! (timestamp,timestamp)bool (duration,duration)bool
@in (A,list(A))bool (A,map(A,B))bool
_[_] (list(A),int)A (map(A,B),A)B (optional(list(A)),int)optional(A) (optional(map(A,B)),A)optional(B)
_[?_] (list(A),int)optional(A) (map(A,B),A)optional(B) (optional(list(A)),int)optional(A) (optional(map(A,B)),A)optional(B)
@not_strictly_false (bool)bool
size (string)int (bytes)int (list(A))int (map(A,B))int string.()int bytes.()int list(A).()int map(A,B).()int
type (A)type
dyn (A)dyn
bool (bool)bool (string)bool
int (int)int (uint)int (double)int (string)int (timestamp)int! (duration)int!
uint (uint)uint (int)uint (double)uint (string)uint
double (double)double (int)double (uint)double (string)double
bytes (bytes)bytes (string)bytes
string (string)string (bool)string (int)string (uint)string (bytes)string (double)string! (timestamp)string! (duration)string! (ip)string (cidr)string
timestamp (timestamp)timestamp (string)timestamp (int)timestamp!
duration (duration)duration (string)duration (int)duration!
contains string.(string)bool
startsWith string.(string)bool
endsWith string.(string)bool
matches string.(string)bool (string,string)bool
getFullYear timestamp.()int timestamp.(string)int!
getMonth timestamp.()int timestamp.(string)int!
getDayOfYear timestamp.()int timestamp.(string)int!
getDayOfMonth timestamp.()int timestamp.(string)int!
getDate timestamp.()int timestamp.(string)int!
getDayOfWeek timestamp.()int timestamp.(string)int!
getHours timestamp.()int timestamp.(string)int! duration.()int
getMinutes timestamp.()int timestamp.(string)int! duration.()int
getSeconds timestamp.()int timestamp.(string)int! duration.()int
getMilliseconds timestamp.()int timestamp.(string)int! duration.()int
charAt string.(int)string
indexOf string.(string)int string.(string,int)int list(A).(A)int
lastIndexOf string.(string)int string.(string,int)int list(A).(A)int
join list(string).()string list(string).(string)string
lowerAscii string.()string
upperAscii string.()string
trim string.()string
replace string.(string,string)string string.(string,string,int)string
split string.(string)list(string) string.(string,int)list(string)
substring string.(int)string string.(int,int)string
format string.(list(dyn))string
strings.quote (string)string
find string.(string)string
findAll string.(string)list(string) string.(string,int)list(string)
isSorted list(C).()bool
sum list(N).()N
min list(C).()C
max list(C).()C
slice list(A).(int,int)list(A)
flatten list(list(A)).()list(A) list(dyn).(int)list(dyn)
sort list(C).()list(C)
sortBy list(A).(B,C)list(A)!
distinct list(A).()list(A)
first list(A).()optional(A)
last list(A).()optional(A)
reverse list(A).()list(A)
lists.range (int)list(int)
sets.contains (list(A),list(A))bool
sets.equivalent (list(A),list(A))bool
sets.intersects (list(A),list(A))bool
optional.none ()optional(A)
optional.of (A)optional(A)
optional.ofNonZeroValue (A)optional(A)
hasValue optional(A).()bool
value optional(A).()A
or optional(A).(optional(A))optional(A)
orValue optional(A).(A)A
quantity (string)quantity
isQuantity (string)bool
isInteger quantity.()bool
asInteger quantity.()int
asApproximateFloat quantity.()double
sign (quantity)int
add quantity.(quantity)quantity quantity.(int)quantity
sub quantity.(quantity)quantity quantity.(int)quantity
isGreaterThan quantity.(quantity)bool semver.(semver)bool
isLessThan quantity.(quantity)bool semver.(semver)bool
compareTo quantity.(quantity)int semver.(semver)int
semver (string)semver (string,bool)semver!
isSemver (string)bool (string,bool)bool!
major semver.()int
minor semver.()int
patch semver.()int
ip (string)ip cidr.()ip
isIP (string)bool
ip.isCanonical (string)bool
family ip.()int
isUnspecified ip.()bool
isLoopback ip.()bool
isLinkLocalMulticast ip.()bool
isLinkLocalUnicast ip.()bool
isGlobalUnicast ip.()bool
cidr (string)cidr
isCIDR (string)bool
containsIP cidr.(string)bool cidr.(ip)bool
containsCIDR cidr.(string)bool cidr.(cidr)bool
masked cidr.()cidr
prefixLength cidr.()int
format.named (string)optional(format)!
format.dns1123Label ()format
format.dns1123Subdomain ()format
format.dns1035Label ()format
format.qualifiedName ()format
format.dns1123LabelPrefix ()format
format.dns1123SubdomainPrefix ()format
format.dns1035LabelPrefix ()format
format.labelValue ()format
format.uri ()format!
format.uuid ()format
format.byte ()format
format.date ()format
format.datetime ()format
validate format.(string)optional(list(string))
url (string)dyn!
isURL (string)bool!
transformList list(A).(A,B,C)dyn! list(A).(A,B,C,D)dyn! map(A,B).(C,D,E)dyn! map(A,B).(C,D,E,F)dyn!
transformMap list(A).(A,B,C)dyn! list(A).(A,B,C,D)dyn! map(A,B).(C,D,E)dyn! map(A,B).(C,D,E,F)dyn!
transformMapEntry list(A).(A,B,C)dyn! list(A).(A,B,C,D)dyn! map(A,B).(C,D,E)dyn! map(A,B).(C,D,E,F)dyn!
";

/// Reads a signature of the table.
fn read(text: &str) -> Option<Signature> {
    let (text, is_evaluated) = match text.strip_suffix('!') {
        Some(text) => (text, false),
        None => (text, true),
    };
    let (receiver, rest) = match text.split_once(".(") {
        Some((receiver, rest)) => (Some(read_type(receiver)?.0), rest),
        None => (None, text.strip_prefix('(')?),
    };
    let mut takes = Vec::new();
    let mut rest = rest;
    while !rest.starts_with(')') {
        let (one, after) = read_type(rest)?;
        takes.push(one);
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    let (returns, _) = read_type(rest.strip_prefix(')')?)?;
    Some(Signature { receiver, takes, returns, is_evaluated })
}

/// Reads a type of the table; returns it and the text after it.
fn read_type(text: &str) -> Option<(Type, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let inner = || {
        let (of, rest) = read_type(rest.strip_prefix('(')?)?;
        Some((Arc::new(of), rest))
    };
    let of = match name {
        "list" => {
            let (of, rest) = inner()?;
            return Some((Type::List(of, Order::Counts), rest.strip_prefix(')')?));
        }
        "optional" => {
            let (of, rest) = inner()?;
            return Some((Type::Optional(of), rest.strip_prefix(')')?));
        }
        "map" => {
            let (key, rest) = inner()?;
            let (value, rest) = read_type(rest.strip_prefix(',')?)?;
            return Some((Type::Map(key, Arc::new(value)), rest.strip_prefix(')')?));
        }
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type" => Type::Kind,
        "quantity" => Type::Opaque("kubernetes.Quantity"),
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "semver" => Type::Opaque("kubernetes.Semver"),
        "format" => Type::Opaque("kubernetes.NamedFormat"),
        name => Type::Param(name.chars().next()?),
    };
    Some((of, rest))
}
