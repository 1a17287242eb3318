//! The parts of SHGAT that can be left out to see what they are worth.

use std::str::FromStr;

use pml_model::shgat::Switches;

/// One part of SHGAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    MessagePassing,
    Priorities,
    Semantic,
    Structure,
    Temporal,
}

impl Switch {
    pub const ALL: [Self; 5] = [Self::MessagePassing, Self::Priorities, Self::Semantic, Self::Structure, Self::Temporal];

    pub const fn name(self) -> &'static str {
        match self {
            Self::MessagePassing => "message_passing",
            Self::Priorities => "priorities",
            Self::Semantic => "semantic",
            Self::Structure => "structure",
            Self::Temporal => "temporal",
        }
    }

    /// Leaves the part out.
    pub const fn turn_off(self, switches: &mut Switches) {
        *self.state(switches) = false;
    }

    /// The names of what is left out, with a space between.
    pub fn names_off(switches: &Switches) -> String {
        let mut switches = *switches;
        let off: Vec<&str> = Self::ALL.into_iter().filter(|part| !*part.state(&mut switches)).map(Self::name).collect();
        off.join(" ")
    }

    const fn state(self, switches: &mut Switches) -> &mut bool {
        match self {
            Self::MessagePassing => &mut switches.message_passing,
            Self::Priorities => &mut switches.priorities,
            Self::Semantic => &mut switches.semantic,
            Self::Structure => &mut switches.structure,
            Self::Temporal => &mut switches.temporal,
        }
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| format!("'{text}' is none of {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_can_be_left_out_by_its_name() {
        for part in Switch::ALL {
            let mut switches = Switches::default();
            part.name().parse::<Switch>().unwrap().turn_off(&mut switches);
            assert_eq!(Switch::names_off(&switches), part.name());
        }
        assert!("head".parse::<Switch>().is_err() && Switch::names_off(&Switches::default()).is_empty());
    }
}
