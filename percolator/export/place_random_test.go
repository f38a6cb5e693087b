package export_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
)

// Several exports into one place at once, some of which end anywhere, leave at most one complete
// export, whole and of one snapshot, and the next one finishes where none was.
func TestExportsAtOnce(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 50)
	ctx := fixture.Context(t)
	for seed := range uint64(20) {
		d := rand.New(rand.NewPCG(seed, 39))
		dir := t.TempDir()
		var running sync.WaitGroup
		var mu sync.Mutex
		var complete []*export.Manifest
		for range 3 {
			place := &dying{Store: backup.Dir(dir), at: 1 + d.IntN(40), done: d.IntN(2) == 0}
			format := []export.Format{export.Parquet, export.JSONLines}[d.IntN(2)]
			running.Go(func() {
				m, err := export.Run(ctx, env.Client, place, export.Options{Table: "typed", Format: format, PartBytes: 1 << 10, Concurrency: 1})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					complete = append(complete, m)
				} else if !errors.Is(err, export.ErrComplete) && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("seed %d: %v", seed, err)
				}
			})
		}
		running.Wait()
		m, _, err := export.ReadManifest(ctx, backup.Dir(dir))
		switch {
		case len(complete) > 1, len(complete) == 1 && (err != nil || m.ID != complete[0].ID):
			t.Fatalf("seed %d: %d are complete, and the manifest is %+v, %v", seed, len(complete), m, err)
		case err != nil:
			m, err = export.Run(ctx, env.Client, backup.Dir(dir), export.Options{Table: "typed", PartBytes: 1 << 10})
			fixture.Must(t, err)
		}
		if got := read(t, env, dir, m); len(got) != 51 {
			t.Fatalf("seed %d: %d rows", seed, len(got))
		}
	}
}

// Whatever stands in a place, with names of any form, only files of exports whose marker is there
// go.
func TestRandomPlaces(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 5)
	ctx := fixture.Context(t)
	pieces := []string{"part-", "export-", "manifest", ".json", ".parquet", ".jsonl", ".csv", "0123456789ab", "ba9876543210", "-00000", "-", "x", "/", ".", "A"}
	for seed := range uint64(400) {
		d := rand.New(rand.NewPCG(seed, 40))
		dir := t.TempDir()
		var stay []string
		for range 1 + d.IntN(4) {
			name := ""
			for range 1 + d.IntN(6) {
				name += pieces[d.IntN(len(pieces))]
			}
			if d.IntN(3) == 0 {
				name = []string{"export-0123456789ab.json", "part-0123456789ab-00000-00000.parquet", "part-ba9876543210-00000-00000.jsonl"}[d.IntN(3)]
			}
			if !filepath.IsLocal(name) || filepath.Clean(name) != name || os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700) != nil ||
				os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600) != nil {
				continue
			}
			stay = append(stay, name)
		}
		_, err := export.Run(ctx, env.Client, backup.Dir(dir), export.Options{Table: "typed"})
		after := names(t, backup.Dir(dir))
		for _, name := range stay {
			marked := slices.Contains(stay, "export-0123456789ab.json") && strings.HasPrefix(name, "part-0123456789ab-") || name == "export-0123456789ab.json"
			if !slices.Contains(after, name) && !(err == nil && marked) {
				t.Fatalf("seed %d: of %q there is %q: %v", seed, stay, after, err)
			}
		}
	}
}
