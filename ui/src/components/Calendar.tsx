import { type DateRange, DayPicker } from "react-day-picker";
import styles from "./Calendar.module.css";
import { Icon } from "./Icon.tsx";

interface Props {
  selected: DateRange | undefined;
  /** The day of now in the shown zone. */
  today: Date;
  onSelect: (days: DateRange | undefined) => void;
}

/** A month of days, of which a range is selected. */
export default function Calendar({ selected, today, onSelect }: Props) {
  return (
    <DayPicker
      mode="range"
      selected={selected}
      onSelect={onSelect}
      defaultMonth={selected?.to ?? selected?.from ?? today}
      today={today}
      disabled={{ after: today }}
      weekStartsOn={1}
      classNames={{
        root: styles.root ?? "",
        months: styles.months ?? "",
        nav: styles.nav ?? "",
        button_previous: styles.step ?? "",
        button_next: styles.step ?? "",
        month_caption: styles.caption ?? "",
        month_grid: styles.grid ?? "",
        weekday: styles.weekday ?? "",
        day: styles.day ?? "",
        day_button: styles.button ?? "",
        today: styles.today ?? "",
        outside: styles.outside ?? "",
        disabled: styles.disabled ?? "",
        selected: styles.selected ?? "",
        range_start: styles.end ?? "",
        range_end: styles.end ?? "",
        hidden: styles.hidden ?? "",
      }}
      components={{ Chevron }}
      labels={{ labelDayButton }}
    />
  );
}

const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "full" });

/** The name of a day, which has the number that is shown. */
function labelDayButton(date: Date, { selected, today }: { selected?: boolean; today?: boolean }): string {
  return `${day.format(date)}${today === true ? ", today" : ""}${selected === true ? ", selected" : ""}`;
}

function Chevron({ orientation }: { orientation?: string }) {
  return <Icon name={orientation === "left" ? "left" : "right"} />;
}
