"""Object stores: their objects, how requests are made, repeated and counted, and what options say of them."""
