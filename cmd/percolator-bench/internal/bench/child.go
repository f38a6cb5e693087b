package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// child is another process of the benchmark. It is asked on its standard input and
// answers on its standard output, a line of JSON each; it ends with its input.
type child struct {
	addresses addresses // of a server
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *json.Decoder
}

// addresses is where the server listens.
type addresses struct {
	Oracle string `json:"oracle"`
	Empty  string `json:"empty"` // serves empty calls
}

func startChild(ctx context.Context, self []string, env []string, args ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, self[0], append(self[1:], args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %v: %w", args, err)
	}
	return &child{cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReader(out))}, nil
}

// collectSeldom is the environment of a process whose live heap is some megabytes: collecting it seldom costs nothing. A
// service would be run like this too.
func collectSeldom() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{"GOGC=400"}
}

func (c *child) stop() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// tell asks the child; hear waits for its answer.
func (c *child) tell(question any) error { return json.NewEncoder(c.in).Encode(question) }

func (c *child) hear(answer any) error {
	if err := c.out.Decode(answer); err != nil {
		return fmt.Errorf("a process of the benchmark ended: %w", err)
	}
	return nil
}

func startServer(ctx context.Context, self []string) (*child, error) {
	c, err := startChild(ctx, self, append(collectSeldom(), "GOMAXPROCS=1"), "server")
	if err != nil {
		return nil, err
	}
	if err := c.hear(&c.addresses); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// serverStats is what a server says of itself.
type serverStats struct {
	Heap   int64 `json:"heap"`
	Served int64 `json:"served"`
	Writes int64 `json:"writes"`
}

func (c *child) stats() (stats serverStats, err error) {
	if err := c.tell(struct{}{}); err != nil {
		return stats, err
	}
	return stats, c.hear(&stats)
}

// loads is the processes with the callers.
type loads struct{ children []*child }

func startLoads(ctx context.Context, cfg OracleConfig, at addresses) (*loads, error) {
	env := collectSeldom()
	if cfg.Processes >= runtime.NumCPU() {
		env = append(env, "GOMAXPROCS=1")
	}
	l := new(loads)
	for range cfg.Processes {
		c, err := startChild(ctx, cfg.Self, env, "load", "--tso", at.Oracle, "--clients", strconv.Itoa(cfg.Clients))
		if err != nil {
			return nil, errors.Join(err, l.stop())
		}
		l.children = append(l.children, c)
	}
	return l, nil
}

func (l *loads) stop() error {
	var errs []error
	for _, c := range l.children {
		errs = append(errs, c.stop())
	}
	return errors.Join(errs...)
}

// run shares a job among the processes and returns what each did.
func (l *loads) run(j job) ([]result, error) {
	n := len(l.children)
	for i, c := range l.children {
		part := j
		part.Callers = j.Callers*(i+1)/n - j.Callers*i/n
		part.Rate = j.Rate / float64(n)
		part.Total = j.Total*int64(i+1)/int64(n) - j.Total*int64(i)/int64(n)
		if err := c.tell(part); err != nil {
			return nil, err
		}
	}
	results := make([]result, n)
	for i, c := range l.children {
		if err := c.hear(&results[i]); err != nil {
			return nil, err
		}
		if results[i].Error != "" {
			return nil, errors.New(results[i].Error)
		}
	}
	return results, nil
}
