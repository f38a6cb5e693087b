package observers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator"
)

func TestBackoffPause(t *testing.T) {
	t.Parallel()
	b := backoff{10 * time.Millisecond, 5 * time.Second}
	for n := 1; n < 200; n++ {
		nominal := 5 * time.Second
		if n < 10 {
			nominal = min(nominal, 10*time.Millisecond<<(n-1))
		}
		for range 20 {
			if d := b.pause(n); d < nominal/2 || d > nominal {
				t.Fatalf("pause(%d) = %v, want %v to %v", n, d, nominal/2, nominal)
			}
		}
	}
}

func TestFifo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		in, out := 0, 0
		for range rapid.IntRange(0, 50).Draw(t, "rounds") {
			for range rapid.IntRange(0, 3000).Draw(t, "push") {
				f.push(in)
				in++
			}
			for range min(f.len(), rapid.IntRange(0, 3000).Draw(t, "pop")) {
				if v := f.pop(); v != out {
					t.Fatalf("popped %d, want %d", v, out)
				}
				out++
			}
			if f.len() != in-out {
				t.Fatalf("length %d, want %d", f.len(), in-out)
			}
		}
	})
}

func TestCongestion(t *testing.T) {
	t.Parallel()
	c := newCongestion(32)
	for range 100 {
		c.committed()
	}
	if c.limit() != 32 {
		t.Fatalf("limit %d without conflicts", c.limit())
	}
	for range 7 {
		c.conflicted()
	}
	if n := c.limit(); n < 14 || n > 16 {
		t.Fatalf("limit %d after seven conflicts", n)
	}
	for range 1000 {
		c.conflicted()
	}
	if c.limit() != 1 {
		t.Fatalf("limit %d, must be one at least and at most", c.limit())
	}
	for range 600 { // about 32²/2
		c.committed()
	}
	if c.limit() != 32 {
		t.Fatalf("limit %d after it has recovered", c.limit())
	}
}

func nothing(context.Context, *percolator.Txn, Change) error { return nil }

func TestRegistryReportsMistakes(t *testing.T) {
	t.Parallel()
	for want, register := range map[string]func(*Registry){
		"empty":       func(r *Registry) { r.Observe("", "t", "c", nothing) },
		"0x00":        func(r *Registry) { r.Observe("a\x00b", "t", "c", nothing) },
		"65 bytes":    func(r *Registry) { r.Observe(strings.Repeat("x", 65), "t", "c", nothing) },
		"nil":         func(r *Registry) { r.Observe("o", "t", "c", nil) },
		"typed nil":   func(r *Registry) { Observe(r, "typed nil", percolator.Bytes("t", "c"), nil) },
		"twice":       func(r *Registry) { r.Observe("o", "t", "c", nothing); r.Observe("o", "t", "d", nothing) },
		"Collapse":    func(r *Registry) { r.Observe("o", "t", "c", nothing, Collapse(-1)) },
		"Concurrent":  func(r *Registry) { r.Observe("o", "t", "c", nothing, MaxConcurrent(-1)) },
		"Timeout":     func(r *Registry) { r.Observe("o", "t", "c", nothing, Timeout(0)) },
		"After needs": func(r *Registry) { r.Observe("o", "t", "c", nothing, After(0, "o")) },
		"HeadStart":   func(r *Registry) { r.Observe("o", "t", "c", nothing, HeadStart(-1)) },
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

func TestCoverage(t *testing.T) {
	t.Parallel()
	schema := &percolator.Schema{Tables: []percolator.Table{
		{Name: "a", Observed: []string{"x", "y"}, Weak: []string{"w"}}, {Name: "b", Observed: []string{"x"}}, {Name: "c"},
	}}
	observe := func(cols ...Column) []*observer {
		var list []*observer
		for i, c := range cols {
			list = append(list, &observer{name: fmt.Sprint(i), table: c.Table, column: c.Name})
		}
		return list
	}
	all := []Column{{"a", "x"}, {"a", "y"}, {"a", "w"}, {"b", "x"}}
	others := &percolator.Schema{Tables: append(schema.Tables, percolator.Table{Name: "e", Observed: []string{"x"}, Schema: "e"})}
	for _, observed := range [][]Column{{{"e", "x"}}, all, append(all, Column{"e", "x"})} {
		if cov, err := cover(others, observe(observed...), nil); err != nil || len(cov.taken) != len(observed) || len(cov.observed) != len(observed) {
			t.Errorf("%v: %v", observed, err)
		}
	}
	if _, err := cover(others, observe(append(all[1:], Column{"e", "x"})...), nil); !errors.Is(err, percolator.ErrSchemaMismatch) {
		t.Errorf("with observers in both, and not of a.x: %v", err)
	}
	for name, test := range map[string]struct {
		observers []*observer
		take      []Column
		want      string
	}{
		"all":                 {observe(all...), nil, ""},
		"one has no observer": {observe(all[1:]...), nil, `"x" of table "a"`},
		"not observed":        {observe(append(all, Column{"c", "x"})...), nil, `"x" of table "c"`},
		"no such table":       {observe(append(all, Column{"d", "x"})...), nil, `no table "d"`},
		"some, as told":       {observe(all[0], all[2]), []Column{{"a", "w"}, {"a", "x"}}, ""},
		"more than told":      {observe(all...), []Column{{"a", "w"}}, ""},
		"told, no observer":   {observe(all[0]), []Column{{"a", "x"}, {"b", "x"}}, `"x" of table "b"`},
		"told, not observed":  {observe(all...), []Column{{"c", "x"}}, `"x" of table "c"`},
	} {
		cov, err := cover(schema, test.observers, test.take)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (!errors.Is(err, percolator.ErrSchemaMismatch) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v", name, err)
		case len(cov.observed) != 4 || fmt.Sprint(cov.tables) != "[a b]":
			t.Errorf("%s: %v, %v", name, cov.observed, cov.tables)
		}
		if test.want == "" && test.take == nil && (len(cov.taken) != 4 || !cov.taken[Column{"a", "w"}].weak || cov.taken[Column{"a", "x"}].weak) {
			t.Errorf("%s: %v", name, cov.taken)
		}
		if name == "more than told" && (len(cov.taken) != 1 || len(cov.lanes) != 1) {
			t.Errorf("%s: takes %d columns with %d observers", name, len(cov.taken), len(cov.lanes))
		}
	}
}

func TestConfigRefusesNegatives(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Concurrency: -1}, {Scanners: -1}, {MaxAttempts: -1}, {QueueLength: -1}, {ScanInterval: -1}, {DrainTimeout: -1}, {MinBackoff: -1}, {MaxBackoff: -1}} {
		if _, err := cfg.withDefaults(); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if _, err := NewWorker(nil, nil, Config{}); !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Error(err)
	}
}
