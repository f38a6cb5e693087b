package observers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

func nothing(context.Context, *percolator.Txn, Change) error { return nil }

func TestRegistryReportsMistakes(t *testing.T) {
	t.Parallel()
	for want, register := range map[string]func(*Registry){
		"empty":         func(r *Registry) { r.Observe("", "t", "c", nothing) },
		"0x00":          func(r *Registry) { r.Observe("a\x00b", "t", "c", nothing) },
		"not UTF-8":     func(r *Registry) { r.Observe("a\xff", "t", "c", nothing) },
		"65 bytes":      func(r *Registry) { r.Observe(strings.Repeat("x", 65), "t", "c", nothing) },
		"nil":           func(r *Registry) { r.Observe("o", "t", "c", nil) },
		"typed nil":     func(r *Registry) { Observe(r, "typed nil", percolator.Bytes("t", "c"), nil) },
		"twice":         func(r *Registry) { r.Observe("o", "t", "c", nothing); r.Observe("o", "t", "d", nothing) },
		"Collapse":      func(r *Registry) { r.Observe("o", "t", "c", nothing, Collapse(-1)) },
		"Concurrent":    func(r *Registry) { r.Observe("o", "t", "c", nothing, MaxConcurrent(-1)) },
		"Timeout":       func(r *Registry) { r.Observe("o", "t", "c", nothing, Timeout(0)) },
		"Timeout needs": func(r *Registry) { r.Observe("o", "t", "c", nothing, Timeout(1<<62)) },
		"After needs":   func(r *Registry) { r.Observe("o", "t", "c", nothing, After(0, "o")) },
		"HeadStart":     func(r *Registry) { r.Observe("o", "t", "c", nothing, HeadStart(-1)) },
	} {
		r := NewRegistry()
		register(r)
		if _, err := r.snapshot(); !errors.Is(err, percolator.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	r := NewRegistry()
	r.Observe(strings.Repeat("x", 64), "t", "c", nothing, MaxConcurrent(0), Collapse(0), Timeout(time.Hour))
	if list, err := r.snapshot(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// A column has so many observers, and no more.
func TestObserversOfAColumnAreLimited(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	for i := range maxOfColumn {
		r.Observe(fmt.Sprint("o", i), "t", "c", nothing)
		r.Observe(fmt.Sprint("other", i), "t", "d", nothing)
	}
	if _, err := r.snapshot(); err != nil {
		t.Error(err)
	}
	r.Observe("one more", "t", "c", nothing)
	if _, err := r.snapshot(); !errors.Is(err, percolator.ErrInvalidArgument) || !strings.Contains(err.Error(), `column "c"`) {
		t.Errorf("one more: %v", err)
	}
}
