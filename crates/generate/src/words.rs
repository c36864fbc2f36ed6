//! Lists of words that fill placeholders, by the name of the placeholder, with the most frequent first.
//!
//! Words contain no quotation marks, backslashes or control characters, so JSON needs no escapes.

/// The services of the fleet. An incident affects one of them.
pub(crate) static SERVICES: &[&str] = &[
    "api-gateway",
    "auth",
    "billing",
    "cart",
    "catalog",
    "checkout",
    "inventory",
    "mailer",
    "orders",
    "profile",
    "search",
    "shipping",
];

/// User names, without their number.
pub(crate) static NAMES: &[&str] = &[
    "alice",
    "bob",
    "carol",
    "dave",
    "erin",
    "frank",
    "grace",
    "heidi",
    "ivan",
    "judy",
    "mallory",
    "niaj",
    "olivia",
    "peggy",
    "rupert",
    "sybil",
    "trent",
    "victor",
    "walter",
    "zoë",
    "jürgen",
    "åsa",
    "さくら",
];

/// The list with this name.
pub(crate) fn word_list(name: &str) -> Option<&'static [&'static str]> {
    WORD_LISTS.iter().find(|(known, _)| *known == name).map(|(_, list)| *list)
}

static WORD_LISTS: &[(&str, &[&str])] = &[
    (
        "agent",
        &[
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
            "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
            "Mozilla/5.0 (Linux; Android 14; Mobile) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36",
            "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://www.example.org/bot.html)",
            "curl/8.5.0",
            "okhttp/4.12.0",
            "Go-http-client/1.1",
            "python-requests/2.32.3",
            "example-app/5.14.2 (Android 14)",
        ],
    ),
    (
        "referer",
        &[
            "-",
            "-",
            "-",
            "https://www.example.com/",
            "https://www.example.com/products",
            "https://www.example.com/search?q=desk%20lamp",
            "https://shop.example.com/cart",
            "https://news.example.org/2025/10-of-the-best",
            "https://www.example.org/",
        ],
    ),
    (
        "class",
        &[
            "com.example.orders.OrderService",
            "com.example.orders.OrderController",
            "com.example.cart.CartRepository",
            "com.example.billing.InvoiceJob",
            "com.example.billing.PaymentClient",
            "com.example.catalog.PriceCache",
            "com.example.search.IndexWriter",
            "com.example.shipping.LabelPrinter",
            "com.example.core.http.RetryPolicy",
            "com.example.core.pool.ConnectionPool",
            "c.e.core.events.Consumer",
            "c.e.inventory.StockListener",
        ],
    ),
    (
        "method-name",
        &["submit", "findById", "charge", "reserve", "render", "refresh", "lambda$0", "doFilter", "poll", "onMessage"],
    ),
    (
        "thread",
        &["main", "scheduler-1", "http-nio-8080-exec-", "pool-2-thread-", "ForkJoinPool-1-worker-", "consumer-"],
    ),
    (
        "exception",
        &[
            "java.net.SocketTimeoutException: Read timed out",
            "java.net.ConnectException: Connection refused",
            "java.io.IOException: Broken pipe",
            "java.lang.IllegalStateException: order is already closed",
            "java.lang.NullPointerException: Cannot invoke Customer.address() because customer is null",
            "java.sql.SQLTransientConnectionException: Connection is not available, request timed out after 30000ms",
            "java.util.concurrent.RejectedExecutionException: queue is full",
            "com.example.core.json.ParseException: unexpected end of input at 1:8192",
        ],
    ),
    ("table", &["orders", "order_lines", "customers", "carts", "stock", "invoices", "sessions", "events", "prices"]),
    ("column", &["id", "customer_id", "created_at", "status", "sku", "updated_at", "total", "region"]),
    ("role", &["app", "app", "app", "reporting", "migrator", "backup"]),
    ("topic", &["orders.placed", "orders.paid", "stock.changed", "mail.outgoing", "prices.updated", "users.signed-up"]),
    ("item", &["desk lamp", "oak shelf", "wool blanket", "tea pot", "café table", "garden chair", "paper lantern"]),
    ("sku", &["LMP-114", "SHF-220", "BLK-031", "TPT-007", "TBL-402", "CHR-118", "LAN-950"]),
    ("region", &["north-1", "north-2", "south-1", "east-1", "west-1"]),
    ("currency", &["EUR", "USD", "GBP", "JPY", "SEK"]),
    ("guess", &["admin", "root", "test", "guest", "oracle", "ubuntu", "postgres", "deploy", "support", "user"]),
    ("unit", &["backup.service", "logrotate.service", "cert-renew.service", "node-agent.service", "orders.service"]),
    ("device", &["sda", "sdb", "nvme0n1", "nvme1n1", "vda"]),
    ("mount", &["/", "/var", "/var/lib/data", "/home", "/srv"]),
    ("process", &["java", "node", "python3", "postgres", "nginx", "worker"]),
    ("state", &["pending → paid", "paid → packed", "packed → shipped", "shipped → delivered", "paid → refunded"]),
    (
        "peer",
        &[
            "orders.example.com:8080",
            "stock.example.com:8080",
            "payments.example.org:443",
            "cache-1.example.com:6379",
            "cache-2.example.com:6379",
            "mail.example.org:587",
            "db-1.example.com:5432",
        ],
    ),
    (
        "reason",
        &["timeout", "connection reset", "connection refused", "deadline exceeded", "circuit open", "no route to host"],
    ),
    ("cache", &["prices", "sessions", "fragments", "permissions", "thumbnails"]),
    ("flag", &["new-checkout", "dark-mode", "bulk-export", "fast-search", "guest-orders"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_need_no_escaping() {
        let lists = WORD_LISTS.iter().map(|(_, list)| *list).chain([SERVICES, NAMES]);
        for word in lists.flatten() {
            assert!(!word.contains(|c: char| c.is_control() || c == '"' || c == '\\'), "{word}");
            assert!(!word.is_empty());
        }
    }

    #[test]
    fn list_names_are_unique() {
        for (name, list) in WORD_LISTS {
            assert_eq!(word_list(name), Some(*list), "{name}");
        }
        assert_eq!(word_list("nothing"), None);
    }
}
