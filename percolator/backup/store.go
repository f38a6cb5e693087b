package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Store keeps a backup. Names are slash-separated paths of letters, digits, '.', '-' and '_'.
// Methods are called concurrently.
type Store interface {
	// Put stores an object: entirely or not at all, also across a crash, and durably when it
	// returns nil.
	Put(ctx context.Context, name string, data []byte) error
	// Get opens an object; the error satisfies errors.Is with fs.ErrNotExist if there is none.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List lists the names of all objects that begin with prefix, in order.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes an object. Deleting a missing one is no error.
	Delete(ctx context.Context, name string) error
}

// Creator is a Store that also creates: of two who create one object, one does.
type Creator interface {
	// Create is Put where there is no such object. The error satisfies errors.Is with fs.ErrExist if
	// there is one, which an attempt of the same call may have stored.
	Create(ctx context.Context, name string, data []byte) error
}

// maxSmallObject bounds the objects that are JSON: a manifest with a million chunks has some 300
// MB.
const maxSmallObject = 1 << 30

// get reads an object of at most limit bytes.
func get(ctx context.Context, s Store, name string, limit int64) (_ []byte, err error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("backup: reading %s: %w", name, err)
	}
	defer func() { _ = r.Close() }() // only read from
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("backup: reading %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("backup: %s: %w: it is longer than %d bytes", name, ErrDamaged, limit)
	}
	return b, nil
}

func put(ctx context.Context, s Store, name string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Put(ctx, name, data); err != nil {
		return fmt.Errorf("backup: writing %s: %w", name, err)
	}
	return nil
}

// Dir is a Store in a directory, which the first Put creates in one that has to exist. What is a
// link out of the directory is not read. A crash may leave a file whose name begins with ".tmp-".
func Dir(path string) Store { return dir(path) }

type dir string

const temporary = ".tmp-"

// root is the directory with a separator at its end: so a link to it is followed, and to open a
// pipe there fails instead of waiting for a writer.
func (d dir) root() string { return filepath.Clean(string(d)) + string(filepath.Separator) }

func (d dir) path(name string) (string, error) {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) || path.Clean(name) != name {
		return "", fmt.Errorf("%q is not the name of an object", name)
	}
	return filepath.Join(string(d), local), nil
}

// Put writes a temporary file beside the object, and renames it when its bytes are on the disk.
func (d dir) Put(_ context.Context, name string, data []byte) error {
	return d.store(name, data, os.Rename)
}

// Create implements Creator.
func (d dir) Create(_ context.Context, name string, data []byte) error {
	return d.store(name, data, func(temporary, to string) error {
		switch err := os.Link(temporary, to); {
		case err == nil:
			return os.Remove(temporary)
		case !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission):
			return err
		}
		// A file system without links cannot tell for certain.
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fs.ErrExist, err)
		}
		return os.Rename(temporary, to)
	})
}

// store writes a temporary file beside the object, and has finish give it its name.
func (d dir) store(name string, data []byte, finish func(temporary, to string) error) (err error) {
	to, err := d.path(name)
	if err != nil {
		return err
	}
	if err := d.make(filepath.Dir(to)); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(to), temporary)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = finish(f.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(to))
}

// make creates the directory or one below it, durably.
func (d dir) make(below string) error {
	if info, err := os.Stat(below); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(below)
	if below != filepath.Clean(string(d)) {
		if err := d.make(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(below, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(above)
}

// syncDir makes renames in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d dir) Get(_ context.Context, name string) (io.ReadCloser, error) {
	if _, err := d.path(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(d.root())
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // what was opened within it stays open
	// Opening a pipe would wait for a writer.
	if info, err := root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	return root.Open(name)
}

func (d dir) List(_ context.Context, prefix string) (names []string, err error) {
	// Files beside the directory of the prefix may belong to others.
	root := d.root()
	if above, _ := path.Split(prefix); above != "" {
		if root, err = d.path(path.Clean(above)); err != nil {
			return nil, err
		}
	}
	err = filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && p == root:
			return fs.SkipAll
		case err != nil:
			return err
		case entry.IsDir() || strings.HasPrefix(entry.Name(), temporary):
			return nil
		}
		local, err := filepath.Rel(string(d), p)
		if name := filepath.ToSlash(local); err == nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

func (d dir) Delete(_ context.Context, name string) error {
	p, err := d.path(name)
	if err != nil {
		return err
	}
	if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
