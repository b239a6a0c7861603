package redislease

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// servers are the connections to all masters of a Redis deployment, as they were when the
// connections were made. Later changes are not tracked, because the connections are dropped after
// any failure.
type servers struct {
	nodes []*node
	slots []slots // slots of a Cluster; nil: the only node has all keys
}

// node is a connection to one server.
type node struct {
	redis.Conn
	raw net.Conn
}

// slots is a range of slots, from first to last, that a node serves.
type slots struct {
	first, last int
	node        *node
}

// connect connects to the servers of a URL. Its errors do not quote the URL.
func connect(ctx context.Context, rawURL string) (*servers, error) {
	p, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, addr := range p.addrs {
		s := &servers{}
		if err := s.from(ctx, p, addr); err != nil {
			s.close()
			failed = append(failed, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		return s, nil
	}
	return nil, errors.Join(failed...)
}

// from connects to the server at addr or, if addr is a Sentinel or a node of a Cluster, to the
// servers that it names.
func (s *servers) from(ctx context.Context, p *place, addr string) error {
	switch {
	case p.master != "":
		sentinel, err := p.dial(ctx, addr, p.sentinelUser, p.sentinelPassword, 0)
		if err != nil {
			return err
		}
		defer func() { _ = sentinel.Close() }()
		at, err := redis.Strings(sentinel.do(ctx, "SENTINEL", "get-master-addr-by-name", p.master))
		if err != nil || len(at) != 2 {
			return fmt.Errorf("ask a Sentinel for the master %s: %w", p.master, err)
		}
		_, err = s.add(ctx, p, net.JoinHostPort(at[0], at[1]))
		return err
	case p.cluster:
		return s.addCluster(ctx, p, addr)
	default:
		_, err := s.add(ctx, p, addr)
		return err
	}
}

// add connects to a server.
func (s *servers) add(ctx context.Context, p *place, addr string) (*node, error) {
	n, err := p.dial(ctx, addr, p.user, p.password, p.db)
	if err != nil {
		return nil, err
	}
	s.nodes = append(s.nodes, n)
	_, err = n.do(ctx, "PING")
	return n, err
}

// addCluster connects to all masters that the node at addr knows.
func (s *servers) addCluster(ctx context.Context, p *place, addr string) error {
	asked, err := s.add(ctx, p, addr)
	if err != nil {
		return err
	}
	ranges, err := redis.Values(asked.do(ctx, "CLUSTER", "SLOTS"))
	if err != nil {
		return fmt.Errorf("query the cluster slots: %w", err)
	}
	host, _, _ := net.SplitHostPort(addr)
	known := map[string]*node{addr: asked}
	for _, r := range ranges {
		var first, last, port int
		var at string
		fields, err := redis.Values(r, nil)
		if err == nil {
			var master []any
			if _, err = redis.Scan(fields, &first, &last, &master); err == nil {
				_, err = redis.Scan(master, &at, &port)
			}
		}
		if err != nil {
			return fmt.Errorf("read the cluster slots: %w", err)
		}
		if at == "" { // the host that was asked
			at = host
		}
		master := net.JoinHostPort(at, strconv.Itoa(port))
		n := known[master]
		if n == nil {
			if n, err = s.add(ctx, p, master); err != nil {
				return fmt.Errorf("%s: %w", master, err)
			}
			known[master] = n
		}
		s.slots = append(s.slots, slots{first, last, n})
	}
	if s.slots == nil {
		return errors.New("no node serves any slots")
	}
	return nil
}

// dial connects to a server within dialTimeout.
func (p *place) dial(ctx context.Context, addr, user, password string, db int) (*node, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	if p.tls != nil {
		secure := p.tls.Clone()
		secure.ServerName, _, _ = net.SplitHostPort(addr)
		raw = tls.Client(raw, secure) // the handshake is part of the first command
	}
	n := &node{Conn: redis.NewConn(raw, 0, 0), raw: raw}
	switch {
	case user != "":
		_, err = n.do(ctx, "AUTH", user, password)
	case password != "":
		_, err = n.do(ctx, "AUTH", password)
	}
	if err == nil && db != 0 {
		_, err = n.do(ctx, "SELECT", db)
	}
	if err != nil {
		_ = n.Close()
		return nil, fmt.Errorf("sign in: %w", err)
	}
	return n, nil
}

// do executes one command within dialTimeout. If that time or ctx is over, the connection cannot be
// used any more.
func (n *node) do(ctx context.Context, command string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = n.raw.Close() })()
	answer, err := n.Do(command, args...)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return answer, err
}

// cut ends all pending operations, after which the connections cannot be used any more. It may be
// called at any time.
func (s *servers) cut() {
	for _, n := range s.nodes {
		_ = n.raw.Close()
	}
}

func (s *servers) close() {
	for _, n := range s.nodes {
		_ = n.Close()
	}
}

// of returns the node that has a key, or nil if no node has its slot.
func (s *servers) of(key string) *node {
	if s.slots == nil {
		return s.nodes[0]
	}
	slot := slotOf(key)
	i := slices.IndexFunc(s.slots, func(r slots) bool { return r.first <= slot && slot <= r.last })
	if i < 0 {
		return nil
	}
	return s.slots[i].node
}

// exec sends the scripts of all commands, by digest or in full, and returns the replies for each
// command.
func (s *servers) exec(commands []command, send func(*redis.Script, redis.Conn, ...any) error) [][]reply {
	replies := make([][]reply, len(commands))
	waiting := map[*node][]*reply{} // per node, in the order in which the scripts were sent
	for i, c := range commands {
		replies[i] = make([]reply, len(c.evals))
		for k, e := range c.evals {
			r := &replies[i][k]
			n := s.of(e.key)
			if n == nil {
				r.err = errors.New("no node serves the slot of a key")
				continue
			}
			if r.err = send(e.script, n, append([]any{e.key}, e.args...)...); r.err == nil {
				waiting[n] = append(waiting[n], r)
			}
		}
	}
	for n := range waiting {
		_ = n.Flush() // Receive returns the same error
	}
	for n, of := range waiting {
		for _, r := range of {
			var answer int64
			answer, r.err = redis.Int64(n.Receive())
			r.yes = answer == 1
		}
	}
	return replies
}

// slotOf returns the slot of a key in a Cluster. It is the CRC-16/XMODEM of the key, or of the part
// within its first braces, modulo 16,384
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/).
func slotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}
