package errortext

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// same contains messages of one kind each, which differ only in their variable parts.
var same = [][]string{
	{
		"Can't reach the partner's API", "Can’t reach the partner’s API",
	},
	{
		"order 12345 was refused after 12.5 ms", "order 7 was refused after 12 ms",
		"order 8 was refused after 1,250.75 ms",
	},
	{
		"mail to ann@example.com bounced", "mail to bob.b+x@mail.example.co.uk bounced",
	},
	{
		"customer cus_NffrFeUfNV2Hib not found", "customer cus_9s6XKzkNRiz8i3 not found",
		"customer cus_NffrFeUfNVhHib not found",
	},
	{
		"order 01ARZ3NDEKTSV4RRFFQ69G5FAV is late", "order 01BX5ZZKBKACTAV9WEVGEMMVRZ is late",
		"order 17 is late", "order 01arz3ndektsv4rrffq69g5fav is late",
	},
	{
		"connect [2001:db8::1]:443: refused", "connect [fe80::1%eth0]:8443: refused",
		"connect 10.0.0.1:5432: refused", "connect ::1: refused",
		"connect 2001:db8:0:0:1:2:3:4: refused",
	},
	{
		"bad token dGhpcyBpcyBhIHRlc3Q=", "bad token c2Vjb25kIHRva2VuIGhlcmU=",
		"bad token YW5vdGhlciBvbmUgdGhhdCBpcyBsb25nZXI",
	},
	{
		"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U expired",
		"jwt eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiI5ODc2In0.abcDEF-ghiJKL_mnoPQRstuVWXyz0123456789abcd expired",
	},
	{
		"cannot open /tmp/upload-123.csv: no such file",
		"cannot open /tmp/aXbYcZ/report.pdf: no such file",
		"cannot open /var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/x: no such file",
	},
	{
		"cannot write upload_abc.tmp", "cannot write xkqzhv.tmp",
	},
	{
		"cannot open C:\\Users\\ann\\AppData\\Local\\Temp\\a.csv now",
		"cannot open C:\\Users\\bob\\AppData\\Local\\Temp\\x1\\b.csv now",
	},
	{
		"unknown field “foo”", "unknown field ‘bar baz’", "unknown field «qux»",
		"unknown field « le prix »", "unknown field „preis“", "unknown field 'x'", "unknown field \"y\"",
		"unknown field `z`", "unknown field 「価格」",
	},
	{
		"Foo@1a2b3c failed", "Foo@7f31245a failed",
	},
	{
		"timed out after 1m30s", "timed out after 250ms", "timed out after 1.5s",
		"timed out after 300µs", "timed out after 2h3m0.5s",
	},
	{
		"at 2026-03-04T05:06:07.089Z", "at 2026-03-04 05:06:07,089", "at 2026-03-04T05:06:07+01:00",
		"at Wed, 04 Mar 2026 05:06:07 GMT", "at Wed Mar 4 05:06:07 UTC 2026", "at 04/03/2026",
		"at Mar 4, 2026 5:06:07", "at 20260304T050607Z", "at 1772600767",
	},
	{
		"id 0198a5b0-0000-7000-8000-000000000002 gone", "id 0198A5B0-1234-7abc-8def-00000000000f gone",
		"id 0198a5b0123470008000000000000002 gone", "id 42 gone",
	},
	{
		"GET https://api.example.com/orders/17?token=abc&x=1 failed",
		"GET https://api.example.com/orders/18?token=zzz failed",
		"GET https://api.example.com/orders/0198a5b0-0000-7000-8000-000000000002?q=%20a failed",
	},
	{
		"worker-3 died", "worker-17 died",
	},
	{
		"pool-3-thread-12 is stuck", "pool-4-thread-1 is stuck",
	},
	{
		"ids [1, 2, 3] missing", "ids [4] missing", "ids [17, 18] missing",
	},
	{
		"bad json {\"a\":1,\"b\":\"x\"}", "bad json {\"c\":\"y\"}",
	},
	{
		"Der Auftrag „A 17“ fehlt", "Der Auftrag „B 18“ fehlt",
	},
	{
		"L'utilisateur 'ann' n'existe pas", "L'utilisateur 'bob' n'existe pas",
		"L’utilisateur « ann » n’existe pas",
	},
	{
		"订单12345不存在", "订单67890不存在",
	},
	{
		"注文「A-1」が見つかりません", "注文「B-22」が見つかりません",
	},
	{
		"mac 00:1a:2b:3c:4d:5e unknown", "mac 66:77:88:99:aa:bb unknown",
	},
	{
		"commit 9fceb02 missing", "commit 1a2b3c4 missing",
	},
	{
		"pod orders-7d9f8b6c5-x2x4z evicted", "pod orders-5c6b8f9d7-k9z2q evicted",
	},
	{
		"0xdeadBEEF is null", "0x7fff5fbff8a0 is null",
	},
	{
		"session req_8fJ2kLm9Qx expired", "session req_Zk29sLqP1a expired",
	},
	{
		"offset 1_000_000 out of range", "offset 25 out of range",
	},
	{
		"size 10MB exceeded", "size 512kB exceeded",
	},
	{
		"got 1e5", "got 1e-5", "got 2.5E+10", "got 7",
	},
	{
		"order12345 failed", "order777 failed",
	},
	{
		"node1 is down", "node22 is down",
	},
}

// different are pairs of messages of different kinds.
var different = [][2]string{
	{"Can't reach the partner's API", "Can't log in to the partner's API"},
	{"Échec d'accès à l'API", "Échec d'envoi à l'API"},
	{"Can’t reach the partner’s API", "Can’t log in to the partner’s API"},
	{"L'utente non c'è", "L'ordine non c'è"},
	{"E1001: declined", "E1002: declined"},
	{"error E1001", "error E1002"},
	{"HTTP 404", "HTTP 500"},
	{"HTTP/1.1 404", "HTTP/1.1 500"},
	{"status 404", "status 500"},
	{"status code 404", "status code 503"},
	{"status=404", "status=500"},
	{"status: 404", "status: 500"},
	{"StatusCode: 404, ReasonPhrase", "StatusCode: 500, ReasonPhrase"},
	{"the target answered 503: x", "the target answered 404: x"},
	{"404 Not Found", "410 Gone"},
	{"server returned 502", "server returned 429"},
	{"responded with 503", "responded with 400"},
	{"failed with status code 401", "failed with status code 403"},
	{"500 Server Error for url", "400 Client Error for url"},
	{"ORA-00942: table", "ORA-00001: table"},
	{"ORA-00942", "ORA-00001"},
	{"SQLSTATE 23505", "SQLSTATE 40001"},
	{"SQLSTATE[23505]", "SQLSTATE[40001]"},
	{"ERROR 1045 (28000)", "ERROR 1062 (28000)"},
	{"exit code 137", "exit code 1"},
	{"exit status 2", "exit status 1"},
	{"errno 104", "errno 111"},
	{"SQLCODE=-803", "SQLCODE=-911"},
	{"ERR_42", "ERR_43"},
	{"ERR_CONN_REFUSED", "ERR_CONN_RESET"},
	{"pq: 22P02", "pq: 42P01"},
	{"PAY-4042: declined", "PAY-4043: declined"},
	{"[PAY-4042] declined", "[PAY-4043] declined"},
	{"java.io.IOException: x", "java.io.EOFException: x"},
	{"OrderV1Handler failed", "OrderV2Handler failed"},
	{"sha256 mismatch", "sha512 mismatch"},
	{"utf8 invalid", "utf16 invalid"},
	{"UTF-8 invalid", "UTF-16 invalid"},
	{"IPv4 only", "IPv6 only"},
	{"int32 overflow", "int64 overflow"},
	{"TLSv1 refused", "TLSv2 refused"},
	{"http2 error", "http3 error"},
	{"bad face", "bad deed"},
	{"the cafe is closed", "the dead are closed"},
	{"状态码 404", "状态码 500"},
	{"エラーコード 1001", "エラーコード 1002"},
	{"Fehlercode 17", "Fehlercode 18"},
	{"código 404", "código 500"},
	{"код 404", "код 500"},
	{"错误码：1001", "错误码：1002"},
	{"订单不存在", "用户不存在"},
	{"/api/orders failed", "/api/users failed"},
	{"https://a.example.com/x failed", "https://b.example.com/x failed"},
	{"column name missing", "column title missing"},
	{"it's late", "it's lost"},
	{"the users' list is empty", "the users' cart is empty"},
	{"user_id is null", "order_id is null"},
	{"S3 failed", "S4 failed"},
	{"k8s failed", "d8s failed"},
	{"base64url bad", "base32url bad"},
	{"log4j2 bad", "log4j1 bad"},
	{"exit 1", "exit 2"},
	{"signal 9", "signal 11"},
	{"rpc error: code = Unavailable", "rpc error: code = Internal"},
	{"response code: 429", "response code: 400"},
	{"don't stop 'til it's done", "don't start 'til it's done"},
}

func TestMessagesOfOneKindBecomeOne(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{}
	for _, kind := range same {
		want := Normalised(kind[0])
		for _, m := range kind {
			if got := Normalised(m); got != want {
				t.Errorf("%q became %q, and %q %q", m, got, kind[0], want)
			}
		}
		if other, is := kinds[want]; is {
			t.Errorf("%q and %q are of different kinds, and both became %q", kind[0], other, want)
		}
		kinds[want] = kind[0]
	}
}

func TestMessagesOfDifferentKindsStayDifferent(t *testing.T) {
	t.Parallel()
	for _, pair := range different {
		if a, b := Normalised(pair[0]), Normalised(pair[1]); a == b {
			t.Errorf("%q and %q both became %q", pair[0], pair[1], a)
		}
	}
}

// This is what people are shown: words are kept, and a single # stands for what varies.
func TestWhatAKindLooksLike(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"":                     "#",
		" \n\x00\xff ":         "#",
		"it isn't a number":    "it isn't a number",
		" it  isn't\na number": "it isn't a number",
		"order 12345 of customer-77 was refused after 12.5 ms":                              "order # of customer-# was refused after # ms",
		"connect to 10.0.0.12:5432: connection refused":                                     "connect to #: connection refused",
		`could not parse "a \"b" at 0xdeadBEEF of com.example.Foo@1f2e3d4c`:                 "could not parse # at # of com.example.Foo#",
		"POST https://ann:pw@api.example.com:8443/v1/orders/17?x=1 answered 503: try later": "POST https://api.example.com:#/v1/orders/#?# answered 503: try later",
		"\tat com.example.orders.OrderServiceV2.handle(OrderServiceV2.java:145)":            "at com.example.orders.OrderServiceV2.handle(OrderServiceV2.java:#)",
		"worker #3 of pool [1, 2, 3] died":                                                  "worker # of pool [#] died",
		"Can’t reach l’API of “ann”":                                                        "Can't reach l'API of #",
		"a \"quote that nothing closes":                                                     "a quote that nothing closes",
	} {
		if got := Normalised(message); got != want {
			t.Errorf("%q became\n%q, want\n%q", message, got, want)
		}
	}
	for _, n := range []int{499, 500, 501, 502} { // a character is kept completely or not at all
		if got := Normalised(strings.Repeat("x", n-1) + "é"); len(got) > 500 || !utf8.ValidString(got) || len(got) < 499 {
			t.Errorf("%d bytes became %d", n+1, len(got))
		}
	}
}

// pieces are parts of messages for which the rules need to look closely.
var pieces = []string{
	" ", "a", "f", "g", "x", "0", "1", "12", "255", "404", "1234", "0x", "é", "\xff", "_", "-", ".",
	",", ":", "::", "/", "//", "://", "?", "=", "==", "%", "[", "]", "(", ")", "{", "}", "\\", "+",
	"@", "\"", "'", "`", "’", "‘", "“", "”", "„", "«", "»", "「", "」", "订单", "状态码", "ö", "#", "$", "!",
	";", "\n", "T", "Z", "z", "beef", "2026-03-04", "05:06", ":07", "+01:00", "-0100", "10.0.0.12",
	":80", "fe80::1", "::1", "Mar", "Wed", "Wed,", "Mar 4", "2026", "UTC", "GMT",
	"0198a5b0-0000-7000-8000-000000000002", "0198a5b0-0000-7000-8000-00000000000", "status", "code",
	"HTTP", "error", "exit", "returned", "with", "rows", "in", "Not Found", "ERR", "ORA-", "PAY-",
	"E1001", "sha256", "Foo", "OrderV1Handler", "NffrFeUfNV2Hib", "cus_", "dGhpcyBpcyBhIHRlc3Q=",
	"eyJhbGciOiJIUzI1NiJ9.eyJz", "/tmp/", "tmp.", ".tmp", "C:\\", "Temp\\", "http://",
	"ann@example.com", "example.com", "@abcd", "@1a2b3c", "ms", "s", "1m30s", "1.5", "e-5", "µs",
	"KB", "00:1a:2b:3c:4d:5e", "22P02", "k8s", "aBcDeFgHiJ", "isn't", "\\\"",
}

// isNormal fails unless the normal form of a message is its own normal form.
func isNormal(t interface{ Fatalf(string, ...any) }, message string) {
	once := Normalised(message)
	if again := Normalised(once); again != once {
		t.Fatalf("%.300q became %q, and that %q", message, once, again)
	}
	if once == "" || len(once) > maxOut || !utf8.ValidString(once) || strings.ContainsAny(once, "\n\r\t\x00\"“") {
		t.Fatalf("%.300q became %q", message, once)
	}
}

// Every two pieces next to each other, and long chains of them.
func TestANormalFormIsItsOwn(t *testing.T) {
	t.Parallel()
	for _, a := range pieces {
		for _, b := range pieces {
			isNormal(t, a+b)
			isNormal(t, a+b+a)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		isNormal(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 300).Draw(t, "pieces"), ""))
	})
}

// A message is read up to a limit, and the work for each of its bytes is limited, so a hostile
// message of 100 kB gives the same result as its beginning. The profile of this test, which takes
// less than a second, shows that no byte is read again and again.
func TestALongMessageIsNoMoreThanItsBeginning(t *testing.T) {
	t.Parallel()
	for _, p := range pieces {
		long := strings.Repeat(p+" 'x \"", 100_000/(len(p)+5))
		isNormal(t, long)
		if got, want := Normalised(long), Normalised(long[:maxIn+1]); got != want {
			t.Errorf("%q and so on became %.100q, and its beginning %.100q", p, got, want)
		}
	}
	if got := Normalised(`bad value "` + strings.Repeat("x", 5000) + `"`); got != "bad value #" {
		t.Errorf("a long quoted text became %.100q", got)
	}
}

func FuzzANormalFormIsItsOwn(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, message string) { isNormal(t, message) })
}

func BenchmarkNormalised(b *testing.B) {
	messages := []string{
		"connect to 10.0.0.12:5432: connection refused", "deadline of 1250 ms exceeded",
		"could not deserialize record at offset 12345 of orders-3: unexpected character 'x' (code 120) at [Source: (byte[])" +
			`"{\"order\":1}"; line: 1, column: 12]`,
		"\tat com.example.orders.OrderService.handle(OrderService.java:145)",
		"order 0198a5b0-0000-7000-8000-000000000002 was refused by the partner's API with status 503 after 12.5 ms",
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, m := range messages {
			Normalised(m)
		}
	}
}
