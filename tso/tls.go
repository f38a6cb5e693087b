package tso

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// TLSFiles names the PEM files of one side of a TLS connection. They are read again while they are
// in use, so that certificates rotate without a restart: a new connection uses what was in the
// files at most Refresh ago, and existing connections go on.
//
// Files that cannot be used – half written, a key that does not belong to the certificate, one that
// has expired or is not valid yet – change nothing: the former certificates stay in use, and the
// log says so once. Replace files by renaming: a file of several certificates that is cut exactly
// between two of them looks whole.
//
// TLS 1.3 is the minimum. Sessions are not resumed, so that every new connection is checked against
// the present files.
type TLSFiles struct {
	// Cert and Key are this side's certificate, followed by its intermediates, and its private key.
	// Servers need them; clients when the servers ask for a certificate.
	Cert, Key string

	// CA holds the authorities that this side trusts. With it, a server demands from every client a
	// certificate that one of them has signed (mutual TLS). "": a server asks clients for none, a
	// client trusts the authorities of its system.
	CA string

	// ServerName is what the certificate of the server has to be for. "": the host in the address
	// that is dialed. Clients only.
	ServerName string

	// Refresh is how long ago the files may have been read when a connection is made. 0: 10 s.
	Refresh time.Duration

	// Logger gets a line when certificates change, cannot be used, or are about to expire; never
	// their contents. nil: no log.
	Logger *slog.Logger
}

// Bounds of TLSFiles.
const (
	defaultRefresh = 10 * time.Second
	maxPEMBytes    = 1 << 20
	expirySoon     = 72 * time.Hour // when the log begins to warn
)

// ServerCredentials returns the credentials of a server, for ServerConfig.Credentials.
// ErrInvalidArgument: a file cannot be used.
func (f TLSFiles) ServerCredentials() (credentials.TransportCredentials, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, fmt.Errorf("tso: %w: a server with TLS needs a certificate and its key", ErrInvalidArgument)
	}
	if f.ServerName != "" {
		return nil, fmt.Errorf("tso: %w: ServerName is for clients", ErrInvalidArgument)
	}
	return newFileCredentials(f, serverTLS)
}

// ClientCredentials returns the credentials of a client, for [WithTransportCredentials].
// ErrInvalidArgument: a file cannot be used.
func (f TLSFiles) ClientCredentials() (credentials.TransportCredentials, error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, fmt.Errorf("tso: %w: a certificate and its key go together", ErrInvalidArgument)
	}
	return newFileCredentials(f, clientTLS(f.ServerName))
}

// configure makes the configuration of one side from its certificate and its authorities, each of
// which may be nil.
type configure func(cert *tls.Certificate, roots *x509.CertPool) *tls.Config

func serverTLS(cert *tls.Certificate, roots *x509.CertPool) *tls.Config {
	cfg := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*cert},
		SessionTicketsDisabled: true,
	}
	if roots != nil {
		cfg.ClientCAs, cfg.ClientAuth = roots, tls.RequireAndVerifyClientCert
	}
	return cfg
}

func clientTLS(serverName string) configure {
	return func(cert *tls.Certificate, roots *x509.CertPool) *tls.Config {
		cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: serverName}
		if cert != nil {
			cfg.Certificates = []tls.Certificate{*cert}
		}
		return cfg
	}
}

// newFileCredentials reads the files for the first time.
func newFileCredentials(f TLSFiles, side configure) (credentials.TransportCredentials, error) {
	f.Refresh = cmp.Or(f.Refresh, defaultRefresh)
	if f.Refresh < 0 {
		return nil, fmt.Errorf("tso: %w: Refresh %v is negative", ErrInvalidArgument, f.Refresh)
	}
	f.Logger = cmp.Or(f.Logger, slog.New(slog.DiscardHandler))
	r := &tlsReloader{files: f, side: side}
	pems, err := f.read()
	if err == nil {
		err = r.use(pems)
	}
	if err != nil {
		return nil, fmt.Errorf("tso: %w: %w", ErrInvalidArgument, err)
	}
	r.checked = time.Now()
	return &fileCredentials{reloader: r}, nil
}

var errServerName = errors.New("tso: set TLSFiles.ServerName instead")

// fileCredentials are credentials that every handshake takes from the files anew.
type fileCredentials struct{ reloader *tlsReloader }

func (c *fileCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.reloader.fresh().ClientHandshake(ctx, authority, conn)
}

func (c *fileCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.reloader.fresh().ServerHandshake(conn)
}

func (c *fileCredentials) Info() credentials.ProtocolInfo { return c.reloader.last().Info() }

func (c *fileCredentials) Clone() credentials.TransportCredentials {
	return &fileCredentials{reloader: c.reloader}
}

func (c *fileCredentials) OverrideServerName(string) error { return errServerName }

// tlsReloader keeps the credentials of the last usable files. It checks the files when a
// connection is made, so that it needs no goroutine and no end.
type tlsReloader struct {
	files TLSFiles
	side  configure

	mu       sync.Mutex
	checked  time.Time
	contents pemFiles // of which current was made
	current  credentials.TransportCredentials
	expires  time.Time // of this side's certificate; zero without one
	complain string    // the last warning, which is not repeated
}

// pemFiles are the contents of the files; nil where there is none.
type pemFiles struct{ cert, key, ca []byte }

func (p pemFiles) equal(q pemFiles) bool {
	return bytes.Equal(p.cert, q.cert) && bytes.Equal(p.key, q.key) && bytes.Equal(p.ca, q.ca)
}

// last returns the credentials without checking the files.
func (r *tlsReloader) last() credentials.TransportCredentials {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// fresh returns the credentials of the files as they were at most Refresh ago.
func (r *tlsReloader) fresh() credentials.TransportCredentials {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < r.files.Refresh {
		return r.current
	}
	r.checked = time.Now()
	pems, err := r.files.read()
	if err == nil && !pems.equal(r.contents) {
		if err = r.use(pems); err == nil {
			r.files.Logger.Info("TLS certificates were read again", "expires", r.expires)
		}
	}
	switch left := time.Until(r.expires); {
	case err != nil:
		r.warn("the TLS files cannot be used, the former certificates stay in use", err.Error())
	case !r.expires.IsZero() && left < 0:
		r.warn("the TLS certificate has expired", r.expires.String())
	case !r.expires.IsZero() && left < expirySoon:
		r.warn("the TLS certificate expires soon", r.expires.String())
	default:
		r.complain = ""
	}
	return r.current
}

// warn logs a state once for as long as it lasts.
func (r *tlsReloader) warn(message, detail string) {
	if r.complain == message+detail {
		return
	}
	r.complain = message + detail
	r.files.Logger.Warn(message, "reason", detail, "cert", r.files.Cert, "ca", r.files.CA)
}

// read reads the files that are named.
func (f TLSFiles) read() (p pemFiles, err error) {
	for _, file := range []struct {
		path string
		to   *[]byte
	}{{f.Cert, &p.cert}, {f.Key, &p.key}, {f.CA, &p.ca}} {
		if file.path == "" {
			continue
		}
		if *file.to, err = readPEM(file.path); err != nil {
			return pemFiles{}, err
		}
	}
	return p, nil
}

func readPEM(path string) ([]byte, error) {
	info, err := os.Stat(path) // opening a pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, maxPEMBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxPEMBytes:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxPEMBytes)
	case len(b) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return b, nil
}

// use makes the credentials of p the current ones if p is valid.
func (r *tlsReloader) use(p pemFiles) error {
	var cert *tls.Certificate
	var expires time.Time
	if p.cert != nil {
		pair, err := parsePair(r.files.Cert, p)
		if err != nil {
			return err
		}
		if from := pair.Leaf.NotBefore; r.current != nil && time.Now().Before(from) {
			return fmt.Errorf("%s is not valid before %v", r.files.Cert, from)
		}
		cert, expires = &pair, pair.Leaf.NotAfter
	}
	var roots *x509.CertPool
	if p.ca != nil {
		authorities, err := parseCertificates(r.files.CA, p.ca)
		if err != nil {
			return err
		}
		roots = x509.NewCertPool()
		for _, authority := range authorities {
			roots.AddCert(authority)
		}
	}
	r.current, r.contents, r.expires = credentials.NewTLS(r.side(cert, roots)), p, expires
	return nil
}

// parsePair returns the certificate in the files, which must be valid.
func parsePair(path string, p pemFiles) (tls.Certificate, error) {
	if _, err := parseCertificates(path, p.cert); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s and its key: %w", path, err)
	}
	if expired := pair.Leaf.NotAfter; time.Now().After(expired) {
		return tls.Certificate{}, fmt.Errorf("%s expired at %v", path, expired)
	}
	return pair, nil
}

// parseCertificates is strict, unlike x509.CertPool: it takes nothing from a file that is cut off,
// instead of what is whole.
func parseCertificates(path string, b []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	blocks := bytes.Count(b, []byte("-----BEGIN "))
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			certificates = append(certificates, certificate)
		}
		b = rest
		blocks--
	}
	switch {
	case blocks != 0: // Decode passes over what it cannot read
		return nil, fmt.Errorf("%s: %w", path, errDamagedPEM)
	case len(certificates) == 0:
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return certificates, nil
}

var errDamagedPEM = errors.New("a block is damaged or cut off")
