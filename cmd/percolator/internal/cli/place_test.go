package cli

import (
	"io"
	"io/fs"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/backup"
)

// Of two who create an object, in a directory or in a bucket, one does.
func TestCreateInAPlace(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	for name, place := range map[string]backup.Store{"directory": backup.Dir(t.TempDir()), "bucket": InBucket(memblob.OpenBucket(nil))} {
		creator := place.(backup.Creator)
		fixture.Must(t, creator.Create(ctx, "a", []byte("first")))
		fixture.WantErr(t, creator.Create(ctx, "a", []byte("second")), fs.ErrExist)
		r, err := place.Get(ctx, "a")
		fixture.Must(t, err)
		b, err := io.ReadAll(r)
		fixture.Must(t, err)
		fixture.Must(t, r.Close())
		names, err := place.List(ctx, "")
		if err != nil || len(names) != 1 || string(b) != "first" {
			t.Errorf("%s: %q, %q, %v", name, b, names, err)
		}
	}
}

// What a URL would leave out of a path is refused: it would be another place.
func TestPlacesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"", "gs://bucket/exports#1", "file:///exports#1", "file:///exports?1", "file://localhost", "gs:///exports", "s3://bucket/exports"} {
		if place, _, err := OpenPlace(t.Context(), location); ExitCode(err) != ExitUsage {
			t.Errorf("%s is %v, %v", location, place, err)
		}
	}
}
