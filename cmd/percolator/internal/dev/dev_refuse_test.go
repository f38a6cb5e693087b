package dev

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

func TestDevRefuses(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "dev.snapshot")
	f := devDefaults(t)
	f.data = good
	r := runDev(t, f, nil)
	c := devClient(t, r.devAddresses)
	devSet(t, c, account("alice", "owner"), "Alice")
	_ = c.Close()
	r.end()
	snapshot, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flipped := bytes.Clone(snapshot)
	flipped[len(flipped)/2] ^= 1
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	taken := l.Addr().String()
	for name, c := range map[string]struct {
		change func(*devFlags)
		code   int
		says   string
	}{
		"a damaged file":    {func(f *devFlags) { f.data = write("a", flipped) }, cli.ExitUsage, "checksum is wrong"},
		"half a file":       {func(f *devFlags) { f.data = write("b", snapshot[:len(snapshot)/2]) }, cli.ExitUsage, "move it away to begin with an empty store"},
		"an empty file":     {func(f *devFlags) { f.data = write("c", nil) }, cli.ExitUsage, "move it away"},
		"another file":      {func(f *devFlags) { f.data = write("d", bytes.Repeat([]byte("text "), 100)) }, cli.ExitUsage, "does not begin with"},
		"no such directory": {func(f *devFlags) { f.data = "/nowhere/at/all" }, cli.ExitUsage, "/nowhere/at/all"},
		"no schema":         {func(f *devFlags) { f.schema = "/nowhere/at/all" }, cli.ExitUsage, "/nowhere/at/all"},
		"a bad schema":      {func(f *devFlags) { f.schema = write("e", []byte("tables: [{nam: t}]")) }, cli.ExitUsage, "unknown field"},
		"another schema":    {func(f *devFlags) { f.data, f.schema = write("f", snapshot), write("g", []byte("tables: [{name: t}]")) }, cli.ExitFailure, "accounts"},
		"values of another type": {func(f *devFlags) {
			f.data, f.schema = write("h", snapshot), write("i", []byte(devSchema+"    columns: [{name: owner, type: int64}]\n"))
		}, cli.ExitFailure, "columns hold values that the new schema does not allow"},
		"a port in use":          {func(f *devFlags) { f.bigtable = taken }, cli.ExitUsage, "--bigtable " + taken + ": "},
		"the oracle's in use":    {func(f *devFlags) { f.oracle = taken }, cli.ExitUsage, "--oracle 127.0.0.1:0 takes a free port"},
		"the console's in use":   {func(f *devFlags) { f.console = taken }, cli.ExitUsage, "--console " + taken + ": "},
		"every address":          {func(f *devFlags) { f.bigtable = "0.0.0.0:0" }, cli.ExitUsage, "not a loopback address"},
		"a name":                 {func(f *devFlags) { f.console = "example.com:80" }, cli.ExitUsage, "not a loopback address"},
		"all interfaces":         {func(f *devFlags) { f.oracle = ":7070" }, cli.ExitUsage, "not a loopback address"},
		"no port":                {func(f *devFlags) { f.oracle = "127.0.0.1" }, cli.ExitUsage, "--oracle"},
		"snapshots all the time": {func(f *devFlags) { f.saveEvery = time.Millisecond }, cli.ExitUsage, "--save-every"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := devDefaults(t)
			c.change(&f)
			before, _ := os.ReadFile(f.data)
			_, err := tryDev(t, f, nil)
			if err == nil || cli.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, exit status %d; want %d and %q", err, cli.ExitCode(err), c.code, c.says)
			}
			if after, _ := os.ReadFile(f.data); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}
