//! Letters: which stand for a word of their own, and which are another letter with a mark.

/// Han, kana and hangul: written without spaces between words.
pub(super) fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// A lower-case Latin letter without its mark, or written out; `None` for any other character.
pub(super) fn plain(letter: char) -> Option<&'static str> {
    Some(match letter {
        '\u{e0}'..='\u{e5}' | '\u{101}' | '\u{103}' | '\u{105}' => "a",
        '\u{e6}' => "ae",
        '\u{e7}' | '\u{107}' | '\u{109}' | '\u{10b}' | '\u{10d}' => "c",
        '\u{f0}' | '\u{10f}' | '\u{111}' => "d",
        '\u{e8}'..='\u{eb}' | '\u{113}' | '\u{115}' | '\u{117}' | '\u{119}' | '\u{11b}' => "e",
        '\u{11d}' | '\u{11f}' | '\u{121}' | '\u{123}' => "g",
        '\u{ec}'..='\u{ef}' | '\u{129}' | '\u{12b}' | '\u{12d}' | '\u{12f}' | '\u{131}' => "i",
        '\u{137}' => "k",
        '\u{13a}' | '\u{13c}' | '\u{13e}' | '\u{142}' => "l",
        '\u{f1}' | '\u{144}' | '\u{146}' | '\u{148}' => "n",
        '\u{f2}'..='\u{f6}' | '\u{f8}' | '\u{14d}' | '\u{14f}' | '\u{151}' => "o",
        '\u{153}' => "oe",
        '\u{155}' | '\u{157}' | '\u{159}' => "r",
        '\u{15b}' | '\u{15d}' | '\u{15f}' | '\u{161}' | '\u{219}' => "s",
        '\u{df}' => "ss",
        '\u{fe}' => "th",
        '\u{163}' | '\u{165}' | '\u{21b}' => "t",
        '\u{f9}'..='\u{fc}' | '\u{169}' | '\u{16b}' | '\u{16d}' | '\u{16f}' | '\u{171}' | '\u{173}' => "u",
        '\u{fd}' | '\u{ff}' => "y",
        '\u{17a}' | '\u{17c}' | '\u{17e}' => "z",
        _ => return None,
    })
}
