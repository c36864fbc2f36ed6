//! Days since 1970 to dates of the Gregorian calendar and back.
//!
//! A year is taken to begin in March: then the leap day is its last, and the days before a month follow a straight
//! line, (153 × month + 2) / 5. The trick is described by Howard Hinnant in "chrono-Compatible Low-Level Date
//! Algorithms".

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;

/// Days in 400 years, after which the calendar repeats.
const DAYS_IN_400_YEARS: u64 = 146_097;

/// The year, month (1..=12) and day (1..=31) that are `days` after 1970-01-01.
pub(super) fn date_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_TO_1970;
    let (cycle, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    // Taking out the leap days that came before makes all years 365 days long.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, after_new_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + after_new_year, month, day)
}

/// Days from 1970-01-01 to a date, negative before; `None` when there is no such date.
pub(super) fn days_from_date(year: i64, month: i64, day: i64) -> Option<i64> {
    let month_days = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=month_days).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_TO_1970.cast_signed())
}
