package emulator_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
)

const (
	toolPackage = "cloud.google.com/go/bigtable/cmd/emulator"
	buildLimit  = 2 * time.Minute
)

// store is a running emulator.
type store struct {
	name    string // for people
	addr    string
	outside bool // in another process
	stop    func()
}

// startStore starts the emulator that the package documentation names.
func startStore(getenv func(string) string) (*store, error) {
	if host := getenv("BIGTABLE_EMULATOR_HOST"); host != "" {
		_, bare, found := strings.Cut(host, "://")
		if !found {
			bare = host
		}
		return &store{name: "the emulator of BIGTABLE_EMULATOR_HOST", addr: bare, outside: true, stop: func() {}}, nil
	}
	switch kind := getenv("PERCOLATOR_TEST_EMULATOR"); kind {
	case "":
		return startInProcess()
	case "gcloud":
		return startGcloud(getenv)
	case "module":
		return startModule()
	default:
		return nil, fmt.Errorf("PERCOLATOR_TEST_EMULATOR=%q is neither gcloud nor module", kind)
	}
}

func startGcloud(getenv func(string) string) (*store, error) {
	path, err := emulators.Find(getenv)
	if err != nil {
		return startModule()
	}
	return startCommand("gcloud's "+path, path)
}

func startModule() (*store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	dir, err := fixture.Programs(ctx, "..", toolPackage)
	if err != nil {
		return nil, err
	}
	return startCommand("the emulator built from "+toolPackage, filepath.Join(dir, path.Base(toolPackage)))
}

func startInProcess() (*store, error) {
	s, err := emulator.Start()
	if err != nil {
		return nil, err
	}
	return &store{name: "the emulator in this process", addr: s.Addr(), stop: func() { _ = s.Close() }}, nil
}

// startCommand runs an emulator on a free port.
func startCommand(name, path string) (*store, error) {
	e, err := emulators.Start(path)
	if err != nil {
		return nil, err
	}
	return &store{name: name, addr: e.Addr, outside: true, stop: e.Stop}, nil
}

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestStoreOfTheEnvironmentComesFirst(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"localhost:8086": "localhost:8086", "http://localhost:8086": "localhost:8086"} {
		s, err := startStore(environment(map[string]string{"BIGTABLE_EMULATOR_HOST": host, "PERCOLATOR_TEST_EMULATOR": "module"}))
		if err != nil || s.addr != want {
			t.Errorf("BIGTABLE_EMULATOR_HOST=%s: %+v, %v", host, s, err)
		}
	}
}

func TestStoreOfUnknownKind(t *testing.T) {
	t.Parallel()
	if s, err := startStore(environment(map[string]string{"PERCOLATOR_TEST_EMULATOR": "other"})); err == nil {
		s.stop()
		t.Error("an unknown kind was started")
	}
}

func TestStoreThatDoesNotServe(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("go") // it ends at once, not knowing these flags
	if err != nil {
		t.Fatal(err)
	}
	if s, err := startCommand("no emulator", path); err == nil {
		s.stop()
		t.Error("it was taken for an emulator")
	}
}

func TestGcloudInSDKDirectory(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	root := t.TempDir()
	dir := filepath.Join(root, "platform", "bigtable-emulator")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	env := environment(map[string]string{"CLOUDSDK_ROOT_DIR": root})
	if path, err := emulators.Find(env); err == nil {
		t.Errorf("found %s before it was there", path)
	}
	want := filepath.Join(dir, "cbtemulator")
	if err := os.WriteFile(want, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := emulators.Find(env); err != nil || path != want {
		t.Errorf("found %q, %v, want %q", path, err, want)
	}
}
