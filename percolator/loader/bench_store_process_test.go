//go:build unix

package loader_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/emulator"
)

// storeProcess is an emulator in a process of its own.
type storeProcess struct {
	testing.TB
	address string

	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// storeEnv makes TestStoreProcess the store of another process.
const storeEnv = "PERCOLATOR_LOADER_TEST_STORE"

// startStore runs this binary again, as a store that ends with the benchmark.
func startStore(b testing.TB) *storeProcess {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestStoreProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), storeEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	s := &storeProcess{TB: b, in: in, out: bufio.NewReader(out)}
	if _, err := fmt.Fscanln(s.out, &s.address); err != nil {
		b.Fatalf("the store does not say where it listens: %v", err)
	}
	return s
}

// cpu is what the store has taken of the processor.
func (s *storeProcess) cpu() (used time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := fmt.Fprintln(s.in)
	if err == nil {
		_, err = fmt.Fscanln(s.out, &used)
	}
	if err != nil {
		s.Errorf("the store does not say what it has taken: %v", err)
	}
	return used
}

// TestStoreProcess is the process of a store: it says where it listens, and after each line that it
// reads how many nanoseconds of the processor it has taken.
func TestStoreProcess(t *testing.T) {
	if os.Getenv(storeEnv) == "" {
		t.SkipNow() // BenchmarkBulk starts it
	}
	s, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	fmt.Println(s.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(int64(now().cpu))
	}
}
