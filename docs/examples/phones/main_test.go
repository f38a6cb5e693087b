package main

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestCount: a phone counts once under the build that it runs, however often the observer runs and
// whatever ran before. docs/ADOPT.md runs the program itself.
func TestCount(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "phones", Observed: []string{osBuild.Name}}, {Name: "builds"}}})
	for _, build := range []string{"a", "a", "b", "", "c", "b"} {
		_, err := env.Client.Update(t.Context(), func(ctx context.Context, tx *percolator.Txn) error { return count(ctx, tx, "phone", build) })
		if err != nil {
			t.Fatal(err)
		}
	}
	err := env.Client.View(t.Context(), func(ctx context.Context, s *percolator.Snapshot) error {
		for build, want := range map[string]int64{"a": 0, "b": 1, "c": 0} {
			if got, err := phones.Get(ctx, s, build); err != nil || got != want {
				t.Errorf("%d phones run %s, want %d (%v)", got, build, want, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
