// Package health says whether what was measured of an instance is in order. It holds each threshold
// once: "percolator check" and the console judge by it, and a test compares the rules of
// docs/observability/alerts.yaml with it.
package health

import (
	"fmt"
	"slices"
)

// Level is how good or bad something is.
type Level string

// The levels, the best first.
const (
	OK         Level = "ok"
	NotChecked Level = "not checked"
	Warning    Level = "warning"
	Failed     Level = "failed" // data does not move, or cannot be trusted
)

var levels = []Level{OK, NotChecked, Warning, Failed}

// Worst is the worst of some levels; OK for none.
func Worst(of ...Level) Level {
	return slices.MaxFunc(append(of, OK), func(a, b Level) int { return slices.Index(levels, a) - slices.Index(levels, b) })
}

// Finding is one thing that was seen.
type Finding struct {
	Level  Level  `json:"level"`
	Saw    string `json:"saw"`
	Remedy string `json:"remedy,omitempty"` // a command, or where to read on

	Advice  string `json:"-"` // what to do, for who has no command line at hand
	Runbook string `json:"-"` // an anchor of docs/RUNBOOK.md
	Unable  bool   `json:"-"` // it should have been checked, and could not be
}

// Found is a finding of a level with its remedy.
func Found(level Level, remedy, format string, args ...any) Finding {
	return Finding{Level: level, Saw: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Fine is what was seen where all is well.
func Fine(format string, args ...any) []Finding {
	return []Finding{Found(OK, "", format, args...)}
}

// ElseFine is what was found, or what was seen if that is nothing.
func ElseFine(out []Finding, format string, args ...any) []Finding {
	if len(out) == 0 {
		return Fine(format, args...)
	}
	return out
}

// Unchecked is what was not looked at.
func Unchecked(format string, args ...any) []Finding {
	return []Finding{Found(NotChecked, "", format, args...)}
}

// Cannot is the finding where an error keeps from looking.
func Cannot(text string) []Finding {
	return []Finding{{Level: NotChecked, Saw: text, Unable: true}}
}

// counted is a number of things.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
