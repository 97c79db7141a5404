//! Errors of a sentinel's commands.

use std::fmt;

/// The reason why a sentinel refuses a command; as a text, the error of Redis 7.0 with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SentinelError {
    /// No master of the name is monitored.
    NoMaster,
    FailoverInProgress,
    NoGoodReplica,
    NoQuorum {
        usable: usize,
        lacks_quorum: bool,
        lacks_majority: bool,
    },
    InvalidQuorum,
    QuorumBelowOne,
    InvalidPort,
    PortOutOfRange,
    InvalidAddress,
    DuplicateName,
    NotAnInteger,
    UnknownSetOption(String),
    InvalidSetValue {
        value: String,
        option: String,
    },
    /// The paths of scripts cannot be set by a command.
    ScriptsDenied,
    UnknownConfig(String),
    InvalidConfigValue {
        value: String,
        name: String,
    },
    UnknownDebugOption(String),
    InvalidDebugValue {
        value: String,
        option: String,
    },
    UnknownFailure,
    /// A message was published on another channel than that of hello messages.
    OnlyHellos,
}

impl fmt::Display for SentinelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SentinelError::NoQuorum { usable, lacks_quorum, lacks_majority } => {
                write_no_quorum(f, *usable, *lacks_quorum, *lacks_majority)
            }
            SentinelError::UnknownSetOption(option) => {
                write!(f, "ERR Unknown option or number of arguments for SENTINEL SET '{option}'")
            }
            SentinelError::InvalidSetValue { value, option } => {
                write!(f, "ERR Invalid argument '{value}' for SENTINEL SET '{option}'")
            }
            SentinelError::UnknownConfig(name) => write!(f, "ERR Invalid argument '{name}' to SENTINEL CONFIG SET"),
            SentinelError::InvalidConfigValue { value, name } => {
                write!(f, "ERR Invalid value '{value}' to SENTINEL CONFIG SET '{name}'")
            }
            SentinelError::UnknownDebugOption(option) => {
                write!(f, "ERR Unknown option or number of arguments for SENTINEL DEBUG '{option}'")
            }
            SentinelError::InvalidDebugValue { value, option } => {
                write!(f, "ERR Invalid argument '{value}' for SENTINEL DEBUG '{option}'")
            }
            error => f.write_str(error.fixed_text()),
        }
    }
}

impl SentinelError {
    /// Returns the text of an error that has no arguments.
    fn fixed_text(&self) -> &'static str {
        match self {
            SentinelError::NoMaster => "ERR No such master with that name",
            SentinelError::FailoverInProgress => "INPROG Failover already in progress",
            SentinelError::NoGoodReplica => "NOGOODSLAVE No suitable replica to promote",
            SentinelError::InvalidQuorum => "ERR Invalid quorum",
            SentinelError::QuorumBelowOne => "ERR Quorum must be 1 or greater.",
            SentinelError::InvalidPort => "ERR Invalid port",
            SentinelError::PortOutOfRange => "ERR Invalid port number.",
            SentinelError::InvalidAddress => "ERR Invalid IP address or hostname specified",
            SentinelError::DuplicateName => "ERR Duplicate master name.",
            SentinelError::NotAnInteger => "ERR value is not an integer or out of range",
            SentinelError::ScriptsDenied => {
                "ERR Reconfiguration of scripts path is denied for security reasons. Check the \
                 deny-scripts-reconfig configuration directive in your Sentinel configuration"
            }
            SentinelError::UnknownFailure => "ERR Unknown failure simulation specified",
            SentinelError::OnlyHellos => "ERR Only HELLO messages are accepted by Sentinel instances.",
            _ => "",
        }
    }
}

fn write_no_quorum(f: &mut fmt::Formatter<'_>, usable: usize, lacks_quorum: bool, lacks_majority: bool) -> fmt::Result {
    write!(f, "NOQUORUM {usable} usable Sentinels. ")?;
    if lacks_quorum {
        f.write_str("Not enough available Sentinels to reach the specified quorum for this master")?;
    }
    if lacks_quorum && lacks_majority {
        f.write_str(". ")?;
    }
    if lacks_majority {
        f.write_str("Not enough available Sentinels to reach the majority and authorize a failover")?;
    }
    Ok(())
}
