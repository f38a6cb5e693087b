package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/spf13/cobra"
)

// Benchmarks have processes of their own: so that what a server costs and what its clients cost are
// not the same scheduler's queue, and to kill them. Such a process is asked on its standard input
// and answers on its standard output, a line of JSON each; it ends with its input. Its first line
// says how it is set up.

// lines is what a part of a benchmark hears and says.
type lines struct {
	in  *json.Decoder
	out *json.Encoder
}

// reply is a line that a part says: an answer, or what went wrong.
type reply struct {
	Value any    `json:"value"`
	Error string `json:"error,omitempty"`
}

// answer answers each line that it hears with what f returns, until the input ends. Then it closes
// the environment. If that has an error, there is nothing else to say.
func answer[Q, A any](l *lines, e *environment, f func(Q) (A, error)) (err error) {
	defer e.closeInto(&err)
	for e.err == nil {
		var q Q
		if err := l.in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := f(q)
		if err == nil {
			err = l.out.Encode(reply{Value: a})
		}
		if err != nil {
			return err
		}
	}
	return e.err
}

// part is the program of a process.
type part func(ctx context.Context, l *lines) error

// setUp makes a part of a function that is told how it is set up. The part says the function's
// error.
func setUp[S any](f func(ctx context.Context, setting S, l *lines) error) part {
	return func(ctx context.Context, l *lines) error {
		var setting S
		err := l.in.Decode(&setting)
		if err == nil {
			err = f(ctx, setting, l)
		}
		if err != nil {
			return errors.Join(err, l.out.Encode(reply{Error: err.Error()}))
		}
		return nil
	}
}

// newPart is the hidden command that processes are started with.
func newPart() *cobra.Command {
	return &cobra.Command{
		Use: "part NAME", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := parts()[args[0]]
			if p == nil {
				return usagef("no benchmark has a part %q", args[0])
			}
			return p(cmd.Context(), &lines{json.NewDecoder(cmd.InOrStdin()), json.NewEncoder(cmd.OutOrStdout())})
		},
	}
}

// process is a part under way.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	in    *json.Decoder
	out   *json.Encoder
	end   func() error // waits for its end, once
}

// startPart starts a part in a process and sets it up.
func startPart(ctx context.Context, name string, setting any, env ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, "part", name)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), os.Stderr
	output, err := p.cmd.StdoutPipe()
	if err == nil {
		p.input, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.in, p.out = json.NewDecoder(output), json.NewEncoder(p.input)
	p.end = sync.OnceValue(p.cmd.Wait)
	if err := p.say(setting); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) say(question any) error { return p.out.Encode(question) }

// hear waits for an answer.
func (p *process) hear(answer any) error {
	r := reply{Value: answer}
	if err := p.in.Decode(&r); err != nil {
		return fmt.Errorf("a process of the benchmark ended: %w", err)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// ask says a question and waits for its answer.
func (p *process) ask(question, answer any) error {
	return errors.Join(p.say(question), p.hear(answer))
}

// stop ends the process and waits for it. One that was killed has ended.
func (p *process) stop() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	return errors.Join(p.input.Close(), p.end())
}

// kill ends the process as a machine that loses its power ends it.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = p.end() // it says that it was killed
	return nil
}

// collectSeldom is the environment of a process whose live heap is some megabytes: collecting it
// seldom costs nothing. A service would be run like this too.
func collectSeldom() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{"GOGC=400"}
}

// parts are the programs of all processes, by name.
func parts() map[string]part {
	return map[string]part{
		"fig10-oracle":     setUp(fig10Oracle),
		"fig10-worker":     setUp(fig10Worker),
		"fig9-run":         setUp(fig9Run),
		"observers-store":  setUp(observersStore),
		"observers-worker": setUp(observersWorker),
		"observers-writer": setUp(observersWriter),
		"tso-load":         setUp(oracleLoad),
		"tso-server":       setUp(oracleServer),
		"ycsb-client":      setUp(ycsbPart),
	}
}
