package backup_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A directory is created in one that exists: a path that was misspelt is not.
func TestDirIsCreatedWhereOneExists(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	if err := backup.Dir(filepath.Join(above, "misspelt", "b")).Put(t.Context(), "chunks/c", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if entries, err := os.ReadDir(above); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	fixture.Must(t, backup.Dir(filepath.Join(above, "b")).Put(t.Context(), "chunks/c", nil))
}

// A link to what lies elsewhere is not what was written there.
func TestLinksOutOfADirAreNotRead(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	fixture.Must(t, os.WriteFile(filepath.Join(other, "o"), []byte("of another"), 0o600))
	fixture.Must(t, os.WriteFile(filepath.Join(dir, "own"), []byte("own"), 0o600))
	fixture.Must(t, os.Symlink(filepath.Join(other, "o"), filepath.Join(dir, "file")))
	fixture.Must(t, os.Symlink(other, filepath.Join(dir, "chunks")))
	fixture.Must(t, os.Symlink("own", filepath.Join(dir, "within")))
	for _, name := range []string{"file", "chunks/o"} {
		if r, err := backup.Dir(dir).Get(t.Context(), name); err == nil {
			_ = r.Close()
			t.Errorf("%s was read", name)
		}
	}
	r, err := backup.Dir(dir).Get(t.Context(), "within")
	fixture.Must(t, err)
	defer r.Close()
	if b, err := io.ReadAll(r); string(b) != "own" {
		t.Errorf("%q, %v", b, err)
	}
}

// A directory is the same one by a link to it, and without a name.
func TestDirByOtherNames(t *testing.T) {
	at, link := t.TempDir(), filepath.Join(t.TempDir(), "latest")
	fixture.Must(t, os.Symlink(at, link))
	t.Chdir(at)
	for _, path := range []string{link, ""} {
		d := backup.Dir(path)
		fixture.Must(t, d.Put(t.Context(), "chunks/c", nil))
		r, err := d.Get(t.Context(), "chunks/c")
		if names, lerr := d.List(t.Context(), "ch"); err != nil || lerr != nil || !slices.Equal(names, []string{"chunks/c"}) {
			t.Errorf("%q: %v, %v, %q", path, err, lerr, names)
			continue
		}
		fixture.Must(t, r.Close())
	}
}

// full is a place without room for more than small objects.
type full struct{ backup.Store }

func (f full) Put(ctx context.Context, name string, data []byte) error {
	if len(data) > 64<<10 {
		return syscall.ENOSPC
	}
	return f.Store.Put(ctx, name, data)
}

// A full disk shows before the wait for the hold, and leaves none.
func TestFullPlaceShowsAtOnce(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	_, err := backup.Run(testContext(t), env.Client, full{newMemory()}, backup.Options{Waiting: func(d time.Duration) { t.Errorf("it waits for %v", d) }})
	fixture.WantErr(t, err, syscall.ENOSPC)
}

// kept is a place that neither replaces nor deletes objects, as a bucket with a retention policy.
type kept struct{ backup.Store }

var errKept = errors.New("the object is kept")

func (k kept) Put(ctx context.Context, name string, data []byte) error {
	if r, err := k.Get(ctx, name); err == nil {
		return errors.Join(errKept, r.Close())
	}
	return k.Store.Put(ctx, name, data)
}

func (kept) Delete(context.Context, string) error { return errKept }

// A backup that has not got its hold begins again in the same place.
func TestBackupWhereObjectsAreKept(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	place := kept{newMemory()}
	_, err := backup.Run(testContext(t), env.Client, place, backup.Options{AsOf: tso.At(time.Now().Add(time.Hour))})
	fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	run(t, env.Client, place, small)
}

// A backup is no export, and an export no backup; who mixes them up is told.
func TestWhatAPlaceHolds(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	ctx, backedUp, exported := testContext(t), newMemory(), newMemory()
	run(t, env.Client, backedUp, small)
	_, err := export.Run(ctx, env.Client, exported, export.Options{Table: "bytes"})
	fixture.Must(t, err)
	_, _, err = export.ReadManifest(ctx, backedUp)
	fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	if !strings.Contains(err.Error(), "percolator restore") {
		t.Error(err)
	}
	_, err = backup.ReadManifest(ctx, exported)
	fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	if !strings.Contains(err.Error(), "percolator import") {
		t.Error(err)
	}
}
