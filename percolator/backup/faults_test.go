package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// memory is a Store whose operations can fail.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	ops     int
	fail    int  // number of the operation that fails; 0: none
	lost    bool // the operation is done, and its answer is lost

	undeleted bool // a Delete has failed
}

var errStore = errors.New("the store failed")

func newMemory() *memory { return &memory{objects: map[string][]byte{}} }

// op does one operation, or not.
func (m *memory) op(do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops++
	if m.ops != m.fail {
		return do()
	}
	if m.lost {
		_ = do()
	}
	return errStore
}

func (m *memory) Put(_ context.Context, name string, data []byte) error {
	return m.op(func() error { m.objects[name] = bytes.Clone(data); return nil })
}

func (m *memory) Get(_ context.Context, name string) (r io.ReadCloser, err error) {
	err = m.op(func() error {
		b, ok := m.objects[name]
		if !ok {
			return fs.ErrNotExist
		}
		r = io.NopCloser(bytes.NewReader(b))
		return nil
	})
	return r, err
}

func (m *memory) List(_ context.Context, prefix string) (names []string, err error) {
	err = m.op(func() error {
		for name := range m.objects {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

func (m *memory) Delete(_ context.Context, name string) error {
	deleting := m.op(func() error { delete(m.objects, name); return nil })
	m.undeleted = m.undeleted || deleting != nil
	return deleting
}

// A backup dies at each of its operations on the store in turn, done or not; the next one resumes
// and completes it, with the same rows.
func TestDiesAtEveryStoreOperation(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	fill(t, env.Client)
	ctx, few := testContext(t), small
	few.Tables = []string{"bytes", "nothing"}
	clean := newMemory()
	want := run(t, env.Client, clean, few)
	all, rows := clean.ops, rowsOf(t, clean, want)
	for n := 1; n <= all; n++ {
		for _, lost := range []bool{false, true} {
			store := newMemory()
			store.fail, store.lost = n, lost
			_, err := backup.Run(ctx, env.Client, store, few)
			if err == nil && store.ops < n { // the emulator samples keys at random, so the plan has fewer ranges
				continue
			}
			if store.undeleted { // what tried the place lies there, in nobody's way
				fixture.Must(t, err)
				continue
			}
			if !errors.Is(err, errStore) {
				t.Fatalf("operation %d failed, and the backup ended with %v", n, err)
			}
			resumed := false
			opts := few
			opts.Progress = func(at backup.Progress) { resumed = at.Resumed }
			got, err := backup.Run(ctx, env.Client, store, opts)
			if errors.Is(err, backup.ErrComplete) && lost { // it was the manifest
				got, err = backup.ReadManifest(ctx, store)
			} else if _, planned := store.objects["plan.json"]; planned && n > 6 && !resumed {
				t.Errorf("operation %d: the second backup did not resume", n)
			}
			must(t, err)
			if !maps.Equal(rowsOf(t, store, got), rows) { // nothing has changed since, so all snapshots are equal
				t.Fatalf("operation %d: %+v, want %+v", n, got.Total, want.Total)
			}
			v, err := backup.Verify(ctx, store, nil)
			if err != nil || len(v.Problems) > 0 {
				t.Fatalf("operation %d: %v, %+v", n, err, v)
			}
		}
	}
	if all < 15 {
		t.Errorf("a backup of %d operations only", all)
	}
}

// rowsOf is what the chunks of each table hold, one after the other: it does not matter how the
// rows were cut into chunks.
func rowsOf(t *testing.T, m *memory, manifest *backup.Manifest) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range manifest.Chunks {
		z, err := zstd.NewReader(bytes.NewReader(m.objects[c.Name]))
		must(t, err)
		b, err := io.ReadAll(z)
		must(t, err)
		z.Close()
		out[c.Table] += string(b)
	}
	return out
}

// Whatever is wrong with an object is found: by Verify, and by Restore before it writes anything of
// the object.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	fill(t, env.Client)
	ctx, good := testContext(t), newMemory()
	m := run(t, env.Client, good, small)
	a, b := m.Chunks[0].Name, m.Chunks[1].Name
	for name, damage := range map[string]func(objects map[string][]byte){
		"missing":   func(o map[string][]byte) { delete(o, a) },
		"truncated": func(o map[string][]byte) { o[a] = o[a][:len(o[a])-1] },
		"empty":     func(o map[string][]byte) { o[a] = nil },
		"longer":    func(o map[string][]byte) { o[a] = append(bytes.Clone(o[a]), 0) },
		"one bit":   func(o map[string][]byte) { o[a] = bytes.Clone(o[a]); o[a][len(o[a])/2] ^= 1 },
		"swapped":   func(o map[string][]byte) { o[a], o[b] = o[b], o[a] },
		"manifest": func(o map[string][]byte) {
			o["manifest.json"] = bytes.Replace(o["manifest.json"], []byte(`"rows": `), []byte(`"rows": 1`), 1)
		},
		"manifest cut":      func(o map[string][]byte) { o["manifest.json"] = o["manifest.json"][:100] },
		"checksum missing":  func(o map[string][]byte) { delete(o, "manifest.json.sha256") },
		"manifest replaced": func(o map[string][]byte) { o["manifest.json"] = o["plan.json"] },
	} {
		t.Run(name, func(t *testing.T) {
			bad := &memory{objects: maps.Clone(good.objects)}
			damage(bad.objects)
			v, err := backup.Verify(ctx, bad, nil)
			if strings.Contains(name, "manifest") || strings.Contains(name, "checksum") {
				expect(t, err, backup.ErrDamaged)
			} else if err != nil || len(v.Problems) == 0 || v.Problems[0].Object != a {
				t.Errorf("found %+v, %v", v, err)
			}
			g := &target{t, env, env.Instance + "-" + strings.ReplaceAll(name, " ", "-")}
			c := g.client(good)
			_, err = backup.Restore(ctx, c, bad, backup.RestoreOptions{Concurrency: 1})
			expect(t, err, backup.ErrDamaged)
			if report := g.audit(mixed); report.Rows > 0 && name != "swapped" {
				t.Errorf("%d rows were restored although the first chunk is damaged", report.Rows)
			}
		})
	}
}

func errOf(_ *backup.Report, err error) error { return err }

// hooked is a memory store with a hook before each operation.
type hooked struct {
	*memory
	before func(op, name string) error
}

func (h *hooked) Put(ctx context.Context, name string, b []byte) error {
	if err := h.before("put", name); err != nil {
		return err
	}
	return h.memory.Put(ctx, name, b)
}

func (h *hooked) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := h.before("get", name); err != nil {
		return nil, err
	}
	return h.memory.Get(ctx, name)
}
