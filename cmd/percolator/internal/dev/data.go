package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gofrs/flock"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// dataFile is the file of a snapshot, which belongs to one process at a time. The lock is on a file
// beside it, because the file itself is replaced with every snapshot.
type dataFile struct {
	path string
	lock *flock.Flock
}

// openDataFile takes the file, which need not exist.
func openDataFile(path string) (*dataFile, error) {
	// A file has one lock, whatever links to it; and saving replaces the file, not the link.
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	for _, name := range []string{path, path + ".lock", path + ".tmp"} { // opening a pipe would wait
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			return nil, cli.Usagef("--data %s: %s is not a file", path, name)
		}
	}
	lock := flock.New(path + ".lock")
	switch got, err := lock.TryLock(); {
	case err != nil:
		return nil, cli.Usagef("--data %s: %w", path, err)
	case !got:
		return nil, fmt.Errorf("--data %s is in use by another process, which holds %s.lock: end it, or use another file", path, path)
	}
	d := &dataFile{path: path, lock: lock}
	if err := d.checkWritable(); err != nil {
		return nil, errors.Join(cli.Usagef("--data %s: nothing could be saved: %w", path, err), lock.Close())
	}
	return d, nil
}

// checkWritable finds out now what would otherwise be found out at the end, when there is something
// to lose.
func (d *dataFile) checkWritable() error {
	f, err := os.OpenFile(d.path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(d.path+".tmp"))
}

// close gives the file back. The lock's file stays: removing it could take it from under another
// process.
func (d *dataFile) close() error { return d.lock.Close() }

// start starts an emulator with what is in the file, if there is one.
func (d *dataFile) start(ctx context.Context, opts ...emulator.Option) (*emulator.Server, emulator.Contents, error) {
	f, err := os.Open(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		server, err := emulator.Start(opts...)
		return server, emulator.Contents{}, err
	}
	if err != nil {
		return nil, emulator.Contents{}, cli.Usagef("--data: %w", err)
	}
	defer func() { _ = f.Close() }()
	server, contents, err := emulator.Restore(ctx, f, opts...)
	if errors.Is(err, emulator.ErrBadSnapshot) {
		return nil, emulator.Contents{}, cli.Usagef("--data %s: %w; put a copy of it in its place, or move it away to begin with an empty store", d.path, err)
	}
	return server, contents, err
}

// save replaces the file by a snapshot of what is frozen, and only by a whole one that is on the
// disk.
func (d *dataFile) save(ctx context.Context, frozen *emulator.Frozen) (contents emulator.Contents, err error) {
	temporary := d.path + ".tmp"
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
			err = fmt.Errorf("--data %s could not be written, and is as it was: %w", d.path, err)
		}
	}()
	// The file contains what users stored.
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return emulator.Contents{}, err
	}
	contents, err = frozen.Save(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return emulator.Contents{}, err
	}
	if err := os.Rename(temporary, d.path); err != nil {
		return emulator.Contents{}, err
	}
	return contents, syncDirectory(filepath.Dir(d.path))
}

// syncDirectory makes a renaming in it last. Windows has no such call.
func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// totals adds up what a log line says of a snapshot.
func totals(c emulator.Contents) slog.Attr {
	var rows, cells int64
	for _, t := range c.Tables {
		rows, cells = rows+t.Rows, cells+t.Cells
	}
	return slog.Group("", "tables", len(c.Tables), "rows", rows, "cells", cells)
}
