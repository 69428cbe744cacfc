"""Share groups as a source of Apache Spark (the extra `spark`): records are accepted when their batch is committed."""
