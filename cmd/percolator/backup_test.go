package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var backupSchema = &percolator.Schema{
	Tables: []percolator.Table{
		{Name: "documents", Observed: []string{"contents"}, Weak: []string{"recount"}, Indexes: []percolator.Index{{Name: "by-url", Column: "url", Unique: true}}},
		{Name: "clusters"},
	},
}

func backedUp(t *testing.T) *cluster {
	t.Helper()
	cl := newCluster(t, backupSchema)
	cl.set(map[percolator.Cell]string{
		{Table: "documents", Row: "a", Column: "url"}:      "http://a.example/",
		{Table: "documents", Row: "a", Column: "contents"}: "to be processed",
		{Table: "documents", Row: "b", Column: "url"}:      "http://b.example/",
		{Table: "clusters", Row: "c", Column: "members"}:   "2",
	})
	return cl
}

// How backups are cut into objects depends on what the emulator says of tablets, which is random.
var (
	byteCounts  = regexp.MustCompile(`("(?:rawBytes|bytes|chunks|allChunks)": )\d+`)
	storedBytes = regexp.MustCompile(`\b\d+ B\b`)
	chunkCounts = regexp.MustCompile(`\b\d+( of \d+)? chunks\b`)
	rangeCounts = regexp.MustCompile(`\bof \d+ ranges\b`)
	objectNames = regexp.MustCompile(`chunks/[a-z]+/[0-9a-f-]+\.zst`)
)

func (s *session) compareBackup(name, dir string) {
	s.c.t.Helper()
	text := strings.ReplaceAll(s.text.String(), dir, "DIR")
	text = byteCounts.ReplaceAllString(text, "${1}<n>")
	text = storedBytes.ReplaceAllString(text, "<n> B")
	text = chunkCounts.ReplaceAllString(text, "<n> chunks")
	text = rangeCounts.ReplaceAllString(text, "of <n> ranges")
	text = objectNames.ReplaceAllString(text, "<object>")
	golden.Compare(s.c.t, name, normalized(text))
}

func TestBackupAndRestore(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testBackupAndRestore)
}

func testBackupAndRestore(t *testing.T) {
	cl, dir := backedUp(t), t.TempDir()
	s, at := session{c: cl}, filepath.Join(dir, "monday")
	s.run(cli.ExitOK, "backup", at)
	s.run(cli.ExitOK, "backup", "ls", at)
	s.run(cli.ExitOK, "backup", "ls", at, "-o", "json")
	s.run(cli.ExitOK, "backup", "ls", at, "--watch", "--timeout", "3s")
	s.run(cli.ExitOK, "backup", "verify", at)
	s.run(cli.ExitOK, "backup", "verify", at, "-o", "json")
	s.run(cli.ExitConflict, "backup", at)
	s.run(cli.ExitOK, "backup", filepath.Join(dir, "clusters"), "clusters", "-o", "json")

	s.run(cli.ExitOK, "restore", at, "--instance", "other", "--dry-run")
	s.runWith(cli.ExitUsage, "n\n", "restore", at, "--instance", "other")
	s.runWith(cli.ExitOK, "y\n", "restore", at, "--instance", "other")
	s.run(cli.ExitOK, "scan", "documents", "--instance", "other")
	s.run(cli.ExitOK, "notify", "ls", "--instance", "other")
	s.run(cli.ExitConflict, "restore", at, "--instance", "other", "--yes")
	s.run(cli.ExitOK, "restore", at, "--instance", "third", "--yes", "-o", "json")
	s.compareBackup("backup.txt", dir)
}

// A restore makes its instance ready under the app profile that it was given: the default one of an
// instance with several clusters allows no conditional mutations.
func TestRestoreUnderAnAppProfile(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRestoreUnderAnAppProfile)
}

func testRestoreUnderAnAppProfile(t *testing.T) {
	at := filepath.Join(t.TempDir(), "monday")
	backedUp(t).must(cli.ExitOK, "backup", at)
	other := newCluster(t, nil, emulator.AppProfiles(map[string]emulator.AppProfile{
		"default": {}, "live": {SingleCluster: true, TransactionalWrites: true},
	}))
	other.must(cli.ExitOK, "restore", at, "--yes", "--app-profile", "live")
	other.must(cli.ExitOK, "scan", "documents", "--app-profile", "live")
}

func TestBackupFailures(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBackupFailures)
}

func testBackupFailures(t *testing.T) {
	cl, dir := backedUp(t), t.TempDir()
	s, at := session{c: cl}, filepath.Join(dir, "monday")
	s.run(cli.ExitUsage, "backup")
	s.run(cli.ExitUsage, "backup", "s3://bucket/path")
	s.run(cli.ExitUsage, "backup", at, "--chunk", "0.5")
	s.run(cli.ExitUsage, "backup", at, "--concurrency", "65")
	s.run(cli.ExitUsage, "backup", at, "--as-of", "1s")
	s.run(cli.ExitFailure, "backup", at, "absent")
	s.run(cli.ExitNotFound, "backup", "ls", at)
	s.run(cli.ExitNotFound, "backup", "verify", at)
	s.run(cli.ExitUsage, "backup", "verify")
	s.run(cli.ExitNotFound, "restore", at, "--yes")
	s.run(cli.ExitUsage, "restore")
	cl.must(cli.ExitOK, "backup", at, "--miss-weak")
	s.run(cli.ExitConflict, "restore", at, "--yes") // into where it comes from

	// Without an object the backup is damaged.
	var m backup.Manifest
	b, err := os.ReadFile(filepath.Join(at, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil {
		err = os.Remove(filepath.Join(at, filepath.FromSlash(m.Chunks[0].Name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.run(cli.ExitFindings, "backup", "verify", at)
	s.run(cli.ExitFindings, "restore", at, "--instance", "other", "--yes", "--concurrency", "1")
	s.run(cli.ExitConflict, "get", "documents", "a", "url", "--instance", "other")
	s.run(cli.ExitUsage, "restore", at, "--abandon")
	s.run(cli.ExitOK, "restore", "--abandon", "--yes", "--instance", "other")
	s.run(cli.ExitNotFound, "get", "documents", "a", "url", "--instance", "other")
	s.compareBackup("backup-failures.txt", dir)
}

// A backup that is interrupted is shown as what it is, and the same command completes it.
func TestBackupIsInterrupted(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBackupIsInterrupted)
}

func testBackupIsInterrupted(t *testing.T) {
	cl, dir := backedUp(t), t.TempDir()
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	_, err := backup.Run(ctx, cl.client, backup.Dir(dir), backup.Options{MissWeak: true, Progress: func(backup.Progress) { interrupt() }})
	if err == nil {
		t.Fatal("it was not interrupted")
	}
	s := session{c: cl}
	s.run(cli.ExitOK, "backup", "ls", dir)
	s.run(cli.ExitNotFound, "backup", "verify", dir)
	s.run(cli.ExitConflict, "backup", dir, "clusters")
	s.run(cli.ExitOK, "backup", dir, "-o", "json")
	s.compareBackup("backup-interrupted.txt", dir)
}

// A bucket is as good as a directory.
func TestBackupToABucket(t *testing.T) {
	t.Parallel()
	cl := backedUp(t)
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	bucket := blob.PrefixedBucket(memblob.OpenBucket(nil), "a/path/")
	defer bucket.Close()
	store := cli.InBucket(bucket)
	if _, err := backup.Run(ctx, cl.client, store, backup.Options{MissWeak: true}); err != nil {
		t.Fatal(err)
	}
	v, err := backup.Verify(ctx, store, nil)
	if err != nil || len(v.Problems) > 0 || v.Verified.Values != 4 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := bucket.Delete(ctx, v.Manifest.Chunks[0].Name); err != nil {
		t.Fatal(err)
	}
	if v, err = backup.Verify(ctx, store, nil); err != nil || len(v.Problems) != 1 {
		t.Errorf("an object is missing, and found is %+v, %v", v, err)
	}
	if err := store.Delete(ctx, "absent"); err != nil {
		t.Error(err)
	}
}
