package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// hiding wraps an error that does not stand in its text as it is.
type hiding struct{ error }

func (h hiding) Error() string { return "hidden: " + strings.ToUpper(h.error.Error()) }
func (h hiding) Unwrap() error { return h.error }

// saying wraps an error of which its text says nothing.
type saying struct{ error }

func (saying) Error() string   { return "nothing of it" }
func (s saying) Unwrap() error { return s.error }

// panicking has no text.
type panicking struct{ error }

func (panicking) Error() string   { panic("no text") }
func (p panicking) Unwrap() error { return p.error }

// The text of a program's error is its own, and what errors of this module in it say of rows is
// not.
func TestProgramText(t *testing.T) {
	t.Parallel()
	conflict := &model.ConflictError{Cell: model.Cell{Table: "t", Row: "secret", Column: "c"}, StartTS: 1, OtherTS: 2}
	absent := fmt.Errorf(`percolator: t/"secret"/c: %w`, model.ErrNotFound)
	away := fmt.Errorf("percolator: reading t: %w", status.Error(codes.Unavailable, "secret"))
	undecodable := fmt.Errorf(`percolator: t/"secret"/c: %w: strconv.Atoi: parsing "secret": invalid syntax`, model.ErrCorrupt)
	theirs := status.Error(codes.NotFound, "no such price")
	for want, err := range map[string]error{
		"no price":                                                 errors.New("no price"),
		"pricing: percolator conflict":                             fmt.Errorf("pricing: %w", conflict),
		"percolator conflict":                                      conflict,
		"pricing: conflict":                                        fmt.Errorf("pricing: %w", model.ErrConflict),
		"pricing: percolator not_found, and so on":                 fmt.Errorf("pricing: %w, and so on", absent),
		"a: b: percolator Unavailable":                             fmt.Errorf("a: %w", fmt.Errorf("b: %w", away)),
		"percolator oracle_unavailable":                            fmt.Errorf("percolator: oracle: %w: secret", tso.ErrUnavailable),
		"one\npercolator not_found\npercolator conflict":           errors.Join(errors.New("one"), absent, conflict),
		"percolator not_found\npercolator not_found":               errors.Join(absent, absent),
		"percolator conflict after percolator not_found":           fmt.Errorf("%[2]w after %[1]w", absent, conflict),
		"percolator not_found, percolator not_found: again":        fmt.Errorf("%w, %w", absent, fmt.Errorf("%w: again", absent)),
		"pricing: rpc error: code = NotFound desc = no such price": fmt.Errorf("pricing: %w", theirs),
		"3 values: percolator corrupt":                             fmt.Errorf("3 values: %w", undecodable),
		"pricing: percolator error":                                fmt.Errorf("pricing: %v", absent),
		"pricing: percolator canceled":                             fmt.Errorf("pricing: %w", fmt.Errorf(`adopt: reading the plain table from row "secret" on: %w`, context.Canceled)),
		"percolator not_found":                                     hiding{absent},
	} {
		if got := ProgramText(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, err := range []error{saying{absent}, fmt.Errorf("pricing: %w", saying{absent}), fmt.Errorf("%s: %w", strings.Repeat("x", maxCut), absent), fmt.Errorf("pricing: %w", panicking{absent})} {
		if got := ProgramText(err); got != "percolator not_found" {
			t.Errorf("%q, of an error that says nothing of what it wraps", got)
		}
	}
	if got := ProgramText(errors.New(strings.Repeat("é", 600))); len(got) != maxErrorText {
		t.Errorf("%d bytes", len(got))
	}
}

// However a program wraps errors of this module, formats them and joins them with its own: what
// they say of rows is left out.
func TestProgramTextOfRandomErrors(t *testing.T) {
	t.Parallel()
	at := model.Cell{Table: "t", Row: "secret", Column: "c"}
	for seed := range uint64(5_000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var tree func(depth int) error
		tree = func(depth int) error {
			kind := rnd.IntN(20)
			if depth == 0 {
				kind %= 9
			}
			switch kind {
			case 0:
				return errors.New("no price")
			case 1:
				return errors.New("")
			case 2:
				return &model.ConflictError{Cell: at, StartTS: 1, OtherTS: 2}
			case 3:
				return &model.UniqueError{Cell: at, Index: "i", Holder: "secret", Own: rnd.IntN(2) == 0}
			case 4:
				return fmt.Errorf("percolator: %s: %w", at, model.ErrNotFound)
			case 5:
				return fmt.Errorf("percolator: %s: %w: no column of T has a value", at, model.ErrNotFound)
			case 6:
				return fmt.Errorf("percolator: table %q: %w: %w", "t", model.ErrClosed, status.Error(codes.Canceled, "secret"))
			case 7:
				return fmt.Errorf("exportqueue: %s: %w: secret", at, model.ErrCorrupt)
			case 8:
				return &tso.NotLeaderError{}
			case 9, 10:
				return fmt.Errorf("pricing: %w", tree(depth-1))
			case 11:
				return fmt.Errorf("%w, and so on", tree(depth-1))
			case 12:
				return fmt.Errorf("%w: %w", tree(depth-1), tree(depth-1))
			case 13:
				return errors.Join(tree(depth-1), tree(depth-1))
			case 14:
				return fmt.Errorf("%v", tree(depth-1))
			case 15:
				return fmt.Errorf("%q: %w", tree(depth-1), tree(depth-1))
			case 16:
				return saying{tree(depth - 1)}
			case 17:
				return status.FromContextError(tree(depth - 1)).Err()
			case 18:
				return fmt.Errorf("percolator: secret: %w", tree(depth-1))
			default:
				return fmt.Errorf("%.30s: %w", tree(depth-1), tree(depth-1))
			}
		}
		err := tree(4)
		if got := ProgramText(err); strings.Contains(got, "secret") {
			t.Fatalf("seed %d: %q, of %q", seed, got, err)
		}
	}
}
