package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func forge(t *testing.T, s *memory, change func(m *backup.Manifest)) *memory {
	m, err := backup.ReadManifest(context.Background(), s)
	must(t, err)
	change(m)
	b, err := json.MarshalIndent(m, "", " ")
	must(t, err)
	out := &memory{objects: maps.Clone(s.objects)}
	sum := sha256.Sum256(b)
	out.objects["manifest.json"] = b
	out.objects["manifest.json.sha256"] = []byte(hex.EncodeToString(sum[:]))
	return out
}

// A small object that claims a row of gigabytes takes little memory.
func TestBombTakesLittleMemory(t *testing.T) {
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	store := newMemory()
	run(t, env.Client, store, small)
	var raw bytes.Buffer
	z, err := zstd.NewWriter(&raw)
	must(t, err)
	const size = 2 << 30
	_, err = z.Write(binary.AppendUvarint([]byte{0x0a}, size))
	must(t, err)
	_, err = z.Write(make([]byte, 1<<20)) // the rest would come if it were read
	must(t, err)
	must(t, z.Close())
	bad := forge(t, store, func(m *backup.Manifest) {
		sum := sha256.Sum256(raw.Bytes())
		m.Chunks[0].SHA256, m.Chunks[0].Bytes, m.Chunks[0].RawBytes = hex.EncodeToString(sum[:]), int64(raw.Len()), 1<<40
	})
	bad.objects[mustManifest(t, bad).Chunks[0].Name] = raw.Bytes()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err = backup.Verify(testContext(t), bad, nil)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
		t.Errorf("an object of %d bytes took %d MiB of memory (%v)", raw.Len(), n>>20, err)
	}
}

func mustManifest(t *testing.T, s backup.Store) *backup.Manifest {
	m, err := backup.ReadManifest(context.Background(), s)
	must(t, err)
	return m
}

func TestNamesDoNotLeaveTheDirectory(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	mem := newMemory()
	run(t, env.Client, mem, small)
	for _, name := range []string{"../../etc/passwd", "/etc/passwd", "chunks/../../x", "", ".", "chunks"} {
		bad := forge(t, mem, func(m *backup.Manifest) { m.Chunks[0].Name = name })
		d := backup.Dir(t.TempDir())
		for n, b := range bad.objects {
			must(t, d.Put(context.Background(), n, b))
		}
		v, err := backup.Verify(testContext(t), d, nil)
		if err == nil || errors.Is(err, backup.ErrDamaged) {
			if err != nil || len(v.Problems) == 1 {
				continue
			}
		}
		t.Errorf("%q: %+v, %v, damaged %v", name, v, err, errors.Is(err, backup.ErrDamaged))
	}
}

// Verify finds what a restore would refuse.
func TestVerifyLooksAtSchema(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	mem := newMemory()
	run(t, env.Client, mem, small)
	for what, change := range map[string]func(m *backup.Manifest){
		"unknown table": func(m *backup.Manifest) { m.Chunks[0].Table = "u" },
		"schema":        func(m *backup.Manifest) { m.Schema = json.RawMessage(`{"x":1}`) },
		"no tables":     func(m *backup.Manifest) { m.Tables = nil },
		"chunk twice": func(m *backup.Manifest) {
			m.Chunks = append(m.Chunks, m.Chunks[0])
			m.Total.Add(m.Chunks[0].Counts)
		},
	} {
		v, err := backup.Verify(testContext(t), forge(t, mem, change), nil)
		if err == nil && len(v.Problems) == 0 {
			t.Errorf("%s: nothing noticed", what)
		}
	}
}

// A backup whose schema another version of the program has stored is whole. The error says what to
// do.
func TestBackupOfAnotherFormat(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	mem := newMemory()
	run(t, env.Client, mem, small)
	for format, remedy := range map[string]string{"6": "create a new instance", "8": "upgrade this program"} {
		former := forge(t, mem, func(m *backup.Manifest) {
			m.Schema = json.RawMessage(strings.Replace(string(m.Schema), `"Format": 7`, `"Format": `+format, 1))
		})
		_, verr := backup.Verify(testContext(t), former, nil)
		_, _, perr := backup.Prepared(testContext(t), former)
		for _, err := range []error{verr, perr} {
			if !errors.Is(err, percolator.ErrSchemaMismatch) || errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), remedy) {
				t.Errorf("format %s: %v; want an error that says %q", format, err, remedy)
			}
		}
	}
}
