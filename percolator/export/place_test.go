package export_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
)

func names(t testing.TB, place backup.Store) []string {
	t.Helper()
	names, err := place.List(fixture.Context(t), "")
	fixture.Must(t, err)
	return names
}

// Nothing that a person keeps is deleted: files of other programs, whatever their names, and those
// that have an export's form without its marker.
func TestPlaceOfOthers(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 5)
	ctx := fixture.Context(t)
	for _, name := range []string{
		"part-00000-0f8fad5b-d9cb-469f-a165-70867728950e-c000.snappy.parquet", "part-00000", "part-r-00000.gz.parquet", // Spark, Hadoop
		"000000_0", "000000000000.parquet", "_SUCCESS", "part-d/f.parquet", "notes.txt",
		"part-0123456789ab-00000-00000.parquet", "part-0123456789ab-00000-00000.csv", "part-00000-00000.parquet",
		"export-0123456789ab.json.bak", "export-0123456789AB.json", "manifest.json.sha256",
	} {
		for _, beside := range [][]string{nil, {"export-ba9876543210.json"}} {
			place := backup.Dir(t.TempDir())
			for _, n := range append(beside, name) {
				fixture.Must(t, place.Put(ctx, n, []byte("{}")))
			}
			before := names(t, place)
			_, err := export.Run(ctx, env.Client, place, export.Options{Table: "typed"})
			if fixture.WantErr(t, err, percolator.ErrInvalidArgument); !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
			if after := names(t, place); !slices.Equal(after, before) {
				t.Errorf("%q became %q", before, after)
			}
		}
	}
}

// Where a backup lies, the refusal says so.
func TestPlaceOfABackup(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 5)
	ctx := fixture.Context(t)
	place := backup.Dir(t.TempDir())
	fixture.Must(t, place.Put(ctx, "manifest.json", []byte(`{"version":1,"chunks":[]}`)))
	_, err := export.Run(ctx, env.Client, place, export.Options{Table: "typed"})
	if fixture.WantErr(t, err, percolator.ErrInvalidArgument); !strings.Contains(err.Error(), "a backup") {
		t.Error(err)
	}
}

// What an export has left goes before the next one begins, if it has ended for certain: its hold is
// gone from this instance. Else it goes when the next one is complete.
func TestPlaceOfAnInterruptedExport(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 50)
	ctx := fixture.Context(t)
	o := export.Options{Table: "typed", PartBytes: 1 << 10, Concurrency: 1}
	hold, err := admin.New(env.Client).TakeHold(ctx, 0, 0, "")
	fixture.Must(t, err)
	for name, c := range map[string]struct {
		change func(marker map[string]string)
		stay   int // files, until the next export is complete
	}{
		"ended":                 {func(map[string]string) {}, 0},
		"runs":                  {func(m map[string]string) { m["hold"] = hold.ID }, 3},
		"of another instance":   {func(m map[string]string) { m["instance"] = "other" }, 3},
		"of another project":    {func(m map[string]string) { m["project"] = "other" }, 3},
		"without what is known": {func(m map[string]string) { clear(m) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			place := &failing{Store: backup.Dir(dir)}
			place.puts.Store(3) // the marker and two files
			_, err := export.Run(ctx, env.Client, place, o)
			fixture.WantErr(t, err, os.ErrPermission)
			left := names(t, place)
			if len(left) != 3 {
				t.Fatalf("an interrupted export has left %q", left)
			}
			var marker map[string]string
			b, err := os.ReadFile(filepath.Join(dir, left[0]))
			fixture.Must(t, err)
			fixture.Must(t, json.Unmarshal(b, &marker))
			c.change(marker)
			b, err = json.Marshal(marker)
			fixture.Must(t, err)
			fixture.Must(t, os.WriteFile(filepath.Join(dir, left[0]), b, 0o600))

			next := o
			next.Progress = func(_ export.Counts, files int) {
				if n := names(t, place); len(n) != c.stay+1+files {
					t.Errorf("after %d files there are %q", files, n)
				}
			}
			m, err := export.Run(ctx, env.Client, backup.Dir(dir), next)
			fixture.Must(t, err)
			if n := names(t, place); len(n) != 1+len(m.Parts) || len(read(t, env, dir, m)) != 51 {
				t.Errorf("beside %d files there are %q", len(m.Parts), n)
			}
		})
	}
}

// Of two exports into one place, at any stage of the one that is overtaken, one is complete, and
// nothing is left of the other.
func TestTwoExportsIntoOnePlace(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 50)
	ctx := fixture.Context(t)
	for at := range 5 { // puts: the marker and files
		dir := t.TempDir()
		o := export.Options{Table: "typed", PartBytes: 1 << 10, Concurrency: 1}
		var other *export.Manifest
		place := &interposing{Store: backup.Dir(dir), at: at, f: func() {
			var err error
			other, err = export.Run(ctx, env.Client, backup.Dir(dir), export.Options{Table: "typed", Format: export.JSONLines, PartBytes: 1 << 10})
			fixture.Must(t, err)
		}}
		_, err := export.Run(ctx, env.Client, place, o)
		fixture.WantErr(t, err, export.ErrComplete)
		m, _, err := export.ReadManifest(ctx, backup.Dir(dir))
		if err != nil || m.ID != other.ID {
			t.Fatalf("%+v, %v", m, err)
		}
		if n := names(t, place); len(n) != 1+len(m.Parts) || len(read(t, env, dir, m)) != 51 {
			t.Errorf("beside %d files there are %q", len(m.Parts), n)
		}
	}
}

// Where nothing can be created for certain, one of two exports is complete, whichever stores its
// manifest last: the other has left its files.
func TestTwoExportsIntoAPlainStore(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 5)
	ctx := fixture.Context(t)
	dir := t.TempDir()
	place := plain{backup.Dir(dir), func() {
		_, err := export.Run(ctx, env.Client, plain{backup.Dir(dir), func() {}}, export.Options{Table: "typed"})
		fixture.Must(t, err)
	}}
	_, err := export.Run(ctx, env.Client, place, export.Options{Table: "typed"})
	m, _, damage := export.ReadManifest(ctx, backup.Dir(dir))
	if damage != nil || len(read(t, env, dir, m)) != 6 {
		t.Errorf("%v, after %v", damage, err)
	}
}

// plain is a backup.Store and no backup.Creator. It calls f before it stores a manifest.
type plain struct {
	backup.Store
	f func()
}

func (s plain) Put(ctx context.Context, name string, data []byte) error {
	if name == "manifest.json" {
		s.f()
	}
	return s.Store.Put(ctx, name, data)
}

// The answer to the request that stores the manifest is lost: what stored it is told that it is
// there, and finds its own.
func TestManifestWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 5)
	dir := t.TempDir()
	m, err := export.Run(fixture.Context(t), env.Client, twice{backup.Dir(dir)}, export.Options{Table: "typed"})
	if err != nil || len(read(t, env, dir, m)) != 6 {
		t.Errorf("%+v, %v", m, err)
	}
}

// An export ends at any request to its place, which may have been carried out. The next one is
// complete, and alone.
func TestExportEndedAnywhere(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 50)
	ctx := fixture.Context(t)
	o := export.Options{Table: "typed", PartBytes: 1 << 10, Concurrency: 1}
	for _, done := range []bool{false, true} {
		for nth, ended := 1, false; !ended; nth++ {
			dir := t.TempDir()
			left := &failing{Store: backup.Dir(dir)}
			left.puts.Store(2)
			_, err := export.Run(ctx, env.Client, left, o) // of which there is something to delete
			fixture.WantErr(t, err, os.ErrPermission)
			place := &dying{Store: backup.Dir(dir), at: nth, done: done}
			_, err = export.Run(ctx, env.Client, place, o)
			if ended = place.requests < nth; ended && nth < 12 {
				t.Errorf("an export sends %d requests to its place", nth)
			}
			m, _, stored := export.ReadManifest(ctx, backup.Dir(dir))
			if stored != nil {
				if err == nil {
					t.Fatalf("request %d: no error, and %v", nth, stored)
				}
				m, err = export.Run(ctx, env.Client, backup.Dir(dir), o)
				fixture.Must(t, err)
			}
			for _, name := range names(t, backup.Dir(dir)) {
				if strings.HasPrefix(name, "part-") && !strings.Contains(name, m.ID) {
					t.Errorf("request %d: %s is left beside the manifest of %s", nth, name, m.ID)
				}
			}
			if got := read(t, env, dir, m); len(got) != 51 {
				t.Errorf("request %d: %d rows", nth, len(got))
			}
		}
	}
}

// dying fails from one of its requests on, which may be carried out.
type dying struct {
	backup.Store
	at, requests int
	done         bool
}

func (s *dying) do(f func() error) error {
	if s.requests++; s.requests < s.at {
		return f()
	}
	if s.requests == s.at && s.done {
		_ = f()
	}
	return os.ErrDeadlineExceeded
}

func (s *dying) Put(ctx context.Context, name string, data []byte) error {
	return s.do(func() error { return s.Store.Put(ctx, name, data) })
}

func (s *dying) Create(ctx context.Context, name string, data []byte) error {
	return s.do(func() error { return s.Store.(backup.Creator).Create(ctx, name, data) })
}

func (s *dying) Get(ctx context.Context, name string) (r io.ReadCloser, err error) {
	err = s.do(func() (err error) { r, err = s.Store.Get(ctx, name); return err })
	return r, err
}

func (s *dying) List(ctx context.Context, prefix string) (names []string, err error) {
	err = s.do(func() (err error) { names, err = s.Store.List(ctx, prefix); return err })
	return names, err
}

func (s *dying) Delete(ctx context.Context, name string) error {
	return s.do(func() error { return s.Store.Delete(ctx, name) })
}

// interposing calls f before one of its Puts.
type interposing struct {
	backup.Store
	at, puts int
	f        func()
}

func (s *interposing) Put(ctx context.Context, name string, data []byte) error {
	if s.puts++; s.puts == s.at+1 {
		s.f()
	}
	return s.Store.Put(ctx, name, data)
}

func (s *interposing) Create(ctx context.Context, name string, data []byte) error {
	if s.puts <= s.at {
		s.puts = s.at + 1
		s.f()
	}
	return s.Store.(backup.Creator).Create(ctx, name, data)
}

// twice creates everything twice.
type twice struct{ backup.Store }

func (s twice) Create(ctx context.Context, name string, data []byte) error {
	return errors.Join(s.Store.(backup.Creator).Create(ctx, name, data), s.Store.(backup.Creator).Create(ctx, name, data))
}
