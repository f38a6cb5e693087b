package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Level says how a line ended.
type Level string

// The levels.
const (
	OK         Level = "ok"
	NotChecked Level = "not checked"
	Warning    Level = "warning"
	Failed     Level = "failed"
)

// Finding is one thing that a line saw.
type Finding struct {
	Level       Level
	Saw, Remedy string
	Unable      bool // it should have been checked, and could not be
}

// Result is what became of a line.
type Result struct {
	Name     string
	Findings []Finding
	Sent     Cost // what it has cost
}

// runbook is where to read on about a failure that no command mends.
const runbook = "see docs/RUNBOOK.md#what-check---live-finds"

func okay(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Saw: fmt.Sprintf(format, args...)}}
}

// failed is a failure with the command that mends it; "": none does.
func failed(remedy, format string, args ...any) Finding {
	return Finding{Level: Failed, Saw: fmt.Sprintf(format, args...), Remedy: cmp.Or(remedy, runbook)}
}

func notChecked(format string, args ...any) []Finding {
	return []Finding{{Level: NotChecked, Saw: fmt.Sprintf(format, args...)}}
}

// unable is the finding of a line that could not be carried out.
func unable(err error) []Finding {
	return []Finding{{Level: NotChecked, Saw: err.Error(), Unable: true}}
}

// outOfReach reports whether err says nothing about what the store does with a request.
func outOfReach(err error) bool {
	return slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted,
		codes.PermissionDenied, codes.Unauthenticated, status.Code(errExhausted)}, status.Code(err)) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// stopped is the finding of a line that an error has ended: one of the store, unless it, or the way
// to it, was out of reach.
func stopped(err error) []Finding {
	if outOfReach(err) {
		return unable(err)
	}
	return []Finding{failed("", "it was stopped by: %v", err)}
}

// elseOK is what was found, or what was seen if that is nothing.
func elseOK(out []Finding, format string, args ...any) []Finding {
	if len(out) == 0 {
		return okay(format, args...)
	}
	return out
}
