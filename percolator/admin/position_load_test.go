package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The position of a load is replaced by those who know it.
func TestLoadPosition(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	c, ctx := env.Client, t.Context()
	const name = "a name\x00with .* anything"
	want := func(name, position string) {
		t.Helper()
		got, err := admin.New(c).LoadPosition(ctx, name)
		if err != nil || string(got) != position || (got == nil) != (position == "") {
			t.Errorf("position %q, %v, want %q", got, err, position)
		}
	}
	save := func(former, next string, wantErr error) {
		t.Helper()
		var f []byte
		if former != "" {
			f = []byte(former)
		}
		if err := admin.New(c).SaveLoadPosition(ctx, name, f, []byte(next)); !errors.Is(err, wantErr) {
			t.Errorf("from %q to %q: %v, want %v", former, next, err, wantErr)
		}
	}
	want(name, "")
	save("1", "2", percolator.ErrConflict)
	save("", "1\x00", nil)
	save("", "2", percolator.ErrConflict)
	save("1", "2", percolator.ErrConflict)
	save("1\x00\x00", "2", percolator.ErrConflict)
	want(name, "1\x00")
	save("1\x00", "2", nil)
	save("1\x00", "3", percolator.ErrConflict)
	want(name, "2")
	want("another name", "")

	save("2", "", percolator.ErrInvalidArgument)
	save("2", strings.Repeat("x", admin.MaxLoadPosition+1), percolator.ErrTooLarge)
	save("2", strings.Repeat("x", admin.MaxLoadPosition), nil)
	for _, bad := range []string{"", strings.Repeat("x", admin.MaxLoadName+1)} {
		if _, err := admin.New(c).LoadPosition(ctx, bad); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("a name of %d bytes: %v", len(bad), err)
		}
		if err := admin.New(c).SaveLoadPosition(ctx, bad, nil, []byte("1")); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("a name of %d bytes: %v", len(bad), err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.New(c).LoadPosition(ctx, name); !errors.Is(err, percolator.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A position is stored by one request, which is not repeated: an answer that is lost is no
// conflict, as next may be stored.
func TestLoadPositionWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	c, ctx, sent := env.Client, t.Context(), 0
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method != percolatortest.CheckAndMutateRow {
			return percolatortest.Pass
		}
		sent++
		return percolatortest.LoseAnswer
	})
	err := admin.New(c).SaveLoadPosition(ctx, "load", nil, []byte("1"))
	if err == nil || errors.Is(err, percolator.ErrConflict) {
		t.Errorf("%v, want an ambiguous error", err)
	}
	if sent != 1 {
		t.Errorf("%d requests, want 1", sent)
	}
	if got, err := admin.New(c).LoadPosition(ctx, "load"); err != nil || string(got) != "1" {
		t.Errorf("position %q, %v", got, err)
	}
}

// A position of any length up to the limit is replaced by those who know it, also one that an
// earlier version has stored, and comes back as it was saved (J10).
func TestLongLoadPositions(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	a, ctx := admin.New(env.Client), t.Context()
	position := func(n int, end string) []byte { return []byte(strings.Repeat("\xff", n-len(end)) + end) }
	save := func(former, next []byte, wantErr error) {
		t.Helper()
		if err := a.SaveLoadPosition(ctx, "load", former, next); !errors.Is(err, wantErr) {
			t.Errorf("%d bytes instead of %d: %v, want %v", len(next), len(former), err, wantErr)
		}
	}
	want := func(position []byte) {
		t.Helper()
		if got, err := a.LoadPosition(ctx, "load"); err != nil || string(got) != string(position) {
			t.Errorf("%d bytes, %v, want %d", len(got), err, len(position))
		}
	}
	var last []byte
	for _, n := range []int{1, 8 << 10, 8<<10 + 1, 10_200, 10_221, admin.MaxLoadPosition, 1} {
		next := position(n, "1")
		save(last, next, nil)
		want(next)
		save(position(n, "2"), position(n, "3"), percolator.ErrConflict)
		last = next
		if n == 1 {
			continue
		}
		fixture.Plant(t, ctx, env, "percolator_meta", "load:load", "meta", "state", 1000, string(position(n, "former")))
		want(position(n, "former"))
		save(next, position(n, "3"), percolator.ErrConflict)
		last = position(n, "former")
	}
}
