package telemetry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/text"
)

const (
	// maxErrorText is how much of the text of an error is shown.
	maxErrorText = 512
	// maxCut is the longest text in which errors of this module are looked for.
	maxCut = 64 << 10
)

// ProgramText is the text of an error that a program's own code has returned, at most 512 bytes of
// it. Errors of this module may name rows: each that err wraps, with all below it, is replaced by
// its cause. Where it does not stand literally in the text around it, or has no text because its
// method panics, all there is is the cause.
func ProgramText(err error) (shown string) {
	defer func() {
		if recover() != nil {
			shown = ownText(err)
		}
	}()
	said, exact := programText(err)
	if !exact {
		return ownText(err)
	}
	// What was formatted with %v is no error any more.
	if at := ownTextAt(said); at >= 0 {
		said = said[:at] + ownText(err)
	}
	return text.Beginning(said, maxErrorText)
}

func ownText(err error) string {
	cause := Cause(err)
	if cause == otherError {
		cause = "error"
	}
	return "percolator " + cause
}

// programText is the text of err without those of this module's errors, or false if they cannot be
// told from the rest.
func programText(err error) (said string, exact bool) {
	said = err.Error()
	inside := wrapped(err)
	begins := func(below error) bool { return strings.HasPrefix(said, below.Error()) }
	switch {
	case ownTextAt(said) == 0 && !slices.ContainsFunc(inside, begins): // one that begins so is within
		return ownText(err), true
	case len(said) > maxCut:
		return "", false
	}
	instead := map[string]string{}
	for _, below := range inside {
		switch shown, exact := programText(below); {
		case !exact:
			return "", false
		case shown != below.Error():
			instead[below.Error()] = shown
		}
	}
	return replaced(said, instead)
}

// wrapped lists the errors that err wraps.
func wrapped(err error) (list []error) {
	switch x := err.(type) { //nolint:errorlint // it unwraps itself
	case interface{ Unwrap() error }:
		list = []error{x.Unwrap()}
	case interface{ Unwrap() []error }:
		list = slices.Clone(x.Unwrap())
	}
	return slices.DeleteFunc(list, func(err error) bool { return err == nil })
}

// replaced is a text in which others stand for some parts of it, or false if one of these is not
// there, or overlaps another.
func replaced(said string, instead map[string]string) (string, bool) {
	type part struct {
		from, to int
		shown    string
	}
	var parts []part
	longest := make([]string, 0, len(instead))
	for what := range instead {
		longest = append(longest, what)
	}
	slices.SortFunc(longest, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	for _, what := range longest {
		found := false
		for at := 0; ; {
			i := strings.Index(said[at:], what)
			if i < 0 {
				break
			}
			p := part{at + i, at + i + len(what), instead[what]}
			found, at = true, p.to
			overlaps := func(o part) bool { return o.from < p.to && p.from < o.to }
			switch i := slices.IndexFunc(parts, overlaps); {
			case i < 0:
				parts = append(parts, p)
			case p.from < parts[i].from || p.to > parts[i].to:
				return "", false
			}
		}
		if !found {
			return "", false
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	end := 0
	for _, p := range parts {
		out.WriteString(said[end:p.from] + p.shown)
		end = p.to
	}
	return out.String() + said[end:], true
}

// ownBeginnings are those of all errors of this module that an observer can get.
var ownBeginnings = []string{"percolator: ", "observers: ", "combinequeue: ", "exportqueue: ", "tso: ", "adopt: "}

// ownTextAt is where the first text of an error of this module begins; -1: there is none.
func ownTextAt(said string) int {
	first := -1
	for _, b := range ownBeginnings {
		if at := strings.Index(said, b); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}
